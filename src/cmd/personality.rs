//! The program name under which the binary is called.

use std::ffi::OsStr;
use std::path::Path;

/// Selects command set, texts and exit statuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Personality {
    /// All commands, native texts and statuses.
    Mixer,
    /// The server of Istio Mixer.
    Mixs,
    /// The client of Istio Mixer.
    Mixc,
    /// The configuration server of Istio.
    Galley,
}

impl Personality {
    /// Every program name.
    const ALL: [(Personality, &'static str); 4] = [
        (Personality::Mixer, "mixer"),
        (Personality::Mixs, "mixs"),
        (Personality::Mixc, "mixc"),
        (Personality::Galley, "galley"),
    ];

    /// The personality of a program path. Directories and `.exe` are ignored; any other name is `mixer`.
    pub(crate) fn of_program(program: &OsStr) -> Personality {
        let name =
            Path::new(program).file_name().map(|n| n.to_string_lossy().to_lowercase()).unwrap_or_default();
        Self::from_name(name.strip_suffix(".exe").unwrap_or(&name)).unwrap_or(Personality::Mixer)
    }

    /// The personality with exactly this name.
    pub(crate) fn from_name(name: &str) -> Option<Personality> {
        Self::ALL.iter().find(|(_, known)| *known == name).map(|(personality, _)| *personality)
    }

    /// For example `mixs`.
    pub(crate) fn name(self) -> &'static str {
        Self::ALL.iter().find(|(personality, _)| *personality == self).map_or("mixer", |(_, name)| name)
    }

    /// Whether texts and exit statuses are those of Istio's programs.
    pub(crate) fn is_legacy(self) -> bool {
        self != Personality::Mixer
    }
}
