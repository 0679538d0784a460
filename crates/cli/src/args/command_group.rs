//! Commands below a command.

use std::ops::Deref;

use clap::{ArgMatches, Args, Command, Error, FromArgMatches, Subcommand};

/// The commands below one, such as `list` of `tools`. They are built when that command is on the
/// command line: to build those of all takes as long as to read it.
#[derive(Debug)]
pub(crate) struct CommandGroup<S>(pub(crate) S);

impl<S> Deref for CommandGroup<S> {
    type Target = S;

    fn deref(&self) -> &S {
        &self.0
    }
}

impl<S: Subcommand> Args for CommandGroup<S> {
    fn augment_args(command: Command) -> Command {
        S::augment_subcommands(command).subcommand_required(true).arg_required_else_help(true)
    }

    fn augment_args_for_update(command: Command) -> Command {
        S::augment_subcommands_for_update(command)
    }
}

impl<S: FromArgMatches> FromArgMatches for CommandGroup<S> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        S::from_arg_matches(matches).map(Self)
    }

    fn from_arg_matches_mut(matches: &mut ArgMatches) -> Result<Self, Error> {
        S::from_arg_matches_mut(matches).map(Self)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        self.0.update_from_arg_matches(matches)
    }
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory as _, Parser as _};

    use crate::args::Arguments;

    #[test]
    fn commands_below_one_are_built_when_it_is_called() {
        let mut program = Arguments::command();
        let below = |program: &clap::Command| {
            let groups = program.get_subcommands();
            groups.map(|group| group.get_subcommands().count()).sum::<usize>()
        };
        assert_eq!(below(&program), 0);
        program.build();
        assert!(below(&program) > 40, "{}", below(&program));
        assert!(Arguments::try_parse_from(["deputize", "tools", "list"]).is_ok());
        let nothing = Arguments::try_parse_from(["deputize", "tools"]).unwrap_err();
        assert!(nothing.to_string().contains("List tools, with their origin"), "{nothing}");
    }
}
