//! From arguments to an [`Invocation`].

use std::ffi::OsString;

use super::exit::{Failure, GALLEY_FATAL, LEGACY_FAILURE};
use super::given::GivenAddresses;
use super::personality::Personality;
use super::server::with_config_file;
use super::shown::Shown;
use super::tree::{self, Command, GlobalFlags};
use super::{doctor, galley, legacy, usage};
use mixer_server::ServerOptions;

/// A parsed command line.
#[derive(Debug)]
pub struct Invocation {
    /// Selects texts and exit statuses.
    pub(super) personality: Personality,
    /// Flags of every command.
    pub(super) global: GlobalFlags,
    /// The command and its flags.
    pub(super) command: Command,
    /// Usage block of a legacy command, for errors found after parsing.
    pub(super) usage: String,
    /// The addresses of the command line.
    pub(super) given: GivenAddresses,
    /// Deprecation notices, printed to standard error before the command runs.
    pub(super) notices: String,
}

/// Parses a command line, program name first.
///
/// Errors: the text to show and its exit status; that includes help.
pub fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Invocation, Shown> {
    let mut args: Vec<OsString> = args.into_iter().collect();
    let mut personality = args.first().map_or(Personality::Mixer, |program| Personality::of_program(program));
    if personality == Personality::Mixer
        && args.get(1).is_some_and(|a| a == "legacy")
        && let Some(legacy) = args.get(2).and_then(|a| Personality::from_name(&a.to_string_lossy()))
        && legacy.is_legacy()
    {
        personality = legacy;
        args.drain(..2);
    }
    if personality == Personality::Galley && galley::is_for_operators(&args) {
        // The program `galley` has the commands of operators too, with native texts.
        args.splice(..1, [OsString::from("mixer"), OsString::from("galley")]);
        return parse_native(args);
    }
    if personality.is_legacy() { parse_legacy(personality, &args) } else { parse_native(args) }
}

/// The settings of a `server` command line, program name first; `None` if it names another command.
///
/// Errors: as [`parse`].
pub(super) fn server_options(args: Vec<OsString>) -> Result<Option<ServerOptions>, Shown> {
    Ok(match parse(args)?.command {
        Command::Server(args) => Some(args.options()),
        _ => None,
    })
}

fn parse_legacy(personality: Personality, args: &[OsString]) -> Result<Invocation, Shown> {
    let args: Vec<String> = args.iter().skip(1).map(|a| a.to_string_lossy().into_owned()).collect();
    let root = tree::legacy(personality);
    let (args, usage, notices) = match legacy::parse(&root, &args) {
        legacy::LegacyCommandLine::Run { args, usage, notices } => (args, usage, notices),
        legacy::LegacyCommandLine::Help(text) => return Err(Shown::help(text)),
        legacy::LegacyCommandLine::Error(text) => return Err(Shown::error(text, LEGACY_FAILURE)),
    };
    let args = args.into_iter().map(OsString::from).collect();
    let args = galley::with_config_file(args, &root)
        .map_err(|failure| Shown::error(failure.legacy_text(), GALLEY_FATAL))?;
    let merged = with_config_file(args, &root, false)
        .map_err(|failure| Shown::error(format!("{}\n", failure.legacy_text()), LEGACY_FAILURE))?;
    let command = tree::parse_legacy(root, &merged).map_err(|error| {
        let text = usage::failure(&error, "").legacy_text();
        Shown::error(legacy::usage_error(personality.name(), &text, &usage), LEGACY_FAILURE)
    })?;
    // Their texts are those of Istio.
    let given = GivenAddresses::default();
    Ok(Invocation { personality, global: GlobalFlags::default(), command, usage, given, notices })
}

fn parse_native(args: Vec<OsString>) -> Result<Invocation, Shown> {
    let format = usage::error_format(&args);
    let root = tree::native(false);
    let args = doctor::with_own_flags_first(&root, args);
    let args = usage::help_request(&root, &args).unwrap_or(args);
    let title = usage::title(&root, &args);
    let given = GivenAddresses::of(&args);
    let shown = |failure: Failure| usage::shown_failure(failure.without(&given), format);
    let args = galley::with_config_file(args, &root).map_err(shown)?;
    let merged = with_config_file(args, &root, true).map_err(shown)?;
    let given = GivenAddresses::of(&merged.args);
    let program = tree::parse(&merged).map_err(|error| {
        usage::shown(&error, &title, &root, (format, &given), &|flag| merged.origin_of(&root, flag))
    })?;
    // What follows the flags of a command that takes any arguments counts as well.
    let global = GlobalFlags { error_format: format, ..program.global };
    Ok(Invocation {
        personality: Personality::Mixer,
        global,
        command: program.command,
        usage: String::new(),
        given,
        notices: String::new(),
    })
}
