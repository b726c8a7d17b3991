//! `skillbox schema`.

use skillbox_types::{ExecRequest, ExecResult};

use crate::args::SchemaOf;
use crate::failure::Failure;
use crate::output::print_json;

pub(super) fn schema(of: SchemaOf) -> Result<u8, Failure> {
    let schema = match of {
        SchemaOf::Result => schemars::schema_for!(ExecResult),
        SchemaOf::Request => schemars::schema_for!(ExecRequest),
    };
    print_json(&schema)?;
    Ok(0)
}
