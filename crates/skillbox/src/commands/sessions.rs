//! `skillbox sessions`.

use skillbox_types::SessionId;

use super::block_on;
use crate::args::{SessionsAction, SessionsArgs};
use crate::environment::Environment;
use crate::failure::Failure;
use crate::host;
use crate::output::{Talk, print_json, print_line};

pub(super) fn sessions(args: &SessionsArgs, environment: &Environment, talk: &Talk) -> Result<u8, Failure> {
    block_on(async {
        let engine = host::engine(&args.host, environment)?.build().await?;
        match &args.action {
            Some(SessionsAction::Remove { names }) => {
                for name in names {
                    let id =
                        SessionId::new(name.as_str()).map_err(|error| Failure::new(error.to_string()))?;
                    engine.remove_session(&id).await?;
                }
            }
            None => {
                let kept = engine.kept_sessions().await?;
                if args.json {
                    print_json(&kept)?;
                } else if kept.is_empty() {
                    talk.line("no sessions were kept");
                    talk.hint("skillbox run --session NAME keeps one");
                }
                for id in kept.iter().filter(|_| !args.json) {
                    print_line(id.as_str())?;
                }
            }
        }
        Ok(0)
    })
}
