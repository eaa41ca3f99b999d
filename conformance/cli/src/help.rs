//! Shell completions and manual pages.

use clap::{Args, Command};
use clap_complete::Shell;
use clap_mangen::Man;
use gpu_interop_conformance::{Stop, Verdict};

/// The options of `conformance completions`.
#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell.
    shell: Shell,
}

/// The options of `conformance man`.
#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// The page of this subcommand; default: the page of the whole command, which lists the others.
    subcommand: Option<String>,
}

/// The command without its hidden subcommands, which completion scripts would show.
fn for_people(command: &Command) -> Command {
    Command::new("conformance")
        .version(env!("CARGO_PKG_VERSION"))
        .about(command.get_about().cloned().unwrap_or_default())
        .after_long_help(command.get_after_long_help().cloned().unwrap_or_default())
        .args(command.get_arguments().cloned())
        .subcommands(command.get_subcommands().filter(|subcommand| !subcommand.is_hide_set()).cloned())
}

/// Prints a script that completes this command's subcommands and options.
pub(crate) fn completions(command: &Command, args: &CompletionsArgs) {
    let mut command = for_people(command);
    let name = command.get_name().to_owned();
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, name, &mut script);
    crate::output::print(format_args!("{}", String::from_utf8_lossy(&script)));
}

/// Prints a manual page in the format of `man`.
pub(crate) fn page(command: &Command, args: &ManArgs) -> Verdict {
    let mut command = for_people(command).disable_help_subcommand(true);
    // Completes the names of the subcommands.
    command.build();
    let page = match &args.subcommand {
        None => command,
        Some(name) => command
            .find_subcommand(name)
            .cloned()
            .ok_or_else(|| Stop::failed(format!("unknown subcommand `{name}`; `conformance help` lists them")))?,
    };
    let mut text = Vec::new();
    Man::new(page).render(&mut text)?;
    crate::output::print(format_args!("{}", String::from_utf8_lossy(&text)));
    Ok(())
}
