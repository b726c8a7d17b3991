//! One file for each command.

mod completions;
mod doctor;
mod list;
mod new;
mod reference;
mod run;
mod schema;
mod sessions;
mod show;
mod validate;

use crate::args::Command;
use crate::environment::Environment;
use crate::failure::Failure;
use crate::output::Talk;

/// Does what was asked, and answers the exit code.
pub(crate) fn dispatch(command: Command, environment: &Environment, talk: &Talk) -> Result<u8, Failure> {
    match command {
        Command::Run(args) => run::run(&args, environment, talk),
        Command::List(args) => list::list(&args, environment, talk),
        Command::Show(args) => show::show(&args, environment, talk),
        Command::Validate(args) => validate::validate(&args, talk),
        Command::ReadProperties(args) => reference::read_properties(&args, talk),
        Command::ToPrompt(args) => reference::to_prompt(&args, talk),
        Command::Sessions(args) => sessions::sessions(&args, environment, talk),
        Command::Doctor(args) => doctor::doctor(&args, environment, talk),
        Command::New(args) => new::new(&args, environment),
        Command::Completions { shell } => completions::completions(shell),
        Command::Schema { of } => schema::schema(of),
    }
}

/// Runs asynchronous work to its end.
fn block_on<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.map_err(|error| Failure::new(format!("cannot start threads: {error}")))?.block_on(work)
}
