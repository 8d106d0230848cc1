//! Flags as Istio Mixer spells and names them.

use crate::cmd::flag_type::FlagType;

/// Shorthands of Istio Mixer by command; the other shorthands exist under the name `mixer` only.
const SHORTHANDS: [(&str, &str); 5] = [
    ("check", "mrqasidbtc"),
    ("report", "mrasidbtc"),
    ("server", "pc"),
    ("version", "so"),
    ("collateral", "o"),
];

/// A flag of a legacy command.
pub(super) struct LegacyFlag {
    /// The legacy spelling.
    pub(super) name: String,
    /// The spelling for clap.
    pub(super) canonical: String,
    pub(super) short: Option<char>,
    pub(super) flag_type: FlagType,
    pub(super) help: String,
    pub(super) default: String,
    pub(super) hidden: bool,
}

impl LegacyFlag {
    /// For example `-r, --repeat`.
    pub(super) fn display(&self) -> String {
        match self.short {
            Some(c) => format!("-{c}, --{}", self.name),
            None => format!("--{}", self.name),
        }
    }
}

/// The flags of a command. The legacy spelling is the first alias, or the name without one.
pub(super) fn flags_of(command: &clap::Command) -> impl Iterator<Item = LegacyFlag> {
    let shorthands =
        SHORTHANDS.iter().find(|(name, _)| *name == command.get_name()).map_or("", |(_, letters)| letters);
    command.get_arguments().filter(|a| !a.is_positional()).filter_map(move |arg| {
        let canonical = arg.get_long()?.to_owned();
        let alias = arg.get_all_aliases().and_then(|aliases| aliases.first().map(|a| (*a).to_owned()));
        Some(LegacyFlag {
            name: alias.unwrap_or_else(|| canonical.clone()),
            canonical,
            short: arg.get_short().filter(|c| shorthands.contains(*c)),
            flag_type: FlagType::of(arg),
            help: arg.get_help().map(|h| h.to_string()).unwrap_or_default(),
            default: arg
                .get_default_values()
                .iter()
                .map(|v| v.to_string_lossy().into_owned())
                .collect::<Vec<_>>()
                .join(","),
            hidden: arg.is_hide_set() || matches!(canonical_builtin(arg), Some("help" | "version")),
        })
    })
}

fn canonical_builtin(arg: &clap::Arg) -> Option<&str> {
    matches!(arg.get_action(), clap::ArgAction::Help | clap::ArgAction::HelpLong | clap::ArgAction::Version)
        .then(|| arg.get_id().as_str())
}
