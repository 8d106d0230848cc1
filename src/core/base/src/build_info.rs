//! Version and build stamps.

use std::sync::OnceLock;

/// The stamps of a build; `unknown` where one is missing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BuildInfo {
    /// For example `1.3.0`.
    pub version: &'static str,
    /// Revision, a commit id.
    pub revision: &'static str,
    /// User that built it.
    pub user: &'static str,
    /// Host that built it.
    pub host: &'static str,
    /// Registry of its images.
    pub hub: &'static str,
    /// `Clean` or `Modified`.
    pub status: &'static str,
    /// Tag of the commit.
    pub tag: &'static str,
    /// The compiler, for example `rustc 1.95.0`.
    pub toolchain: &'static str,
}

/// Revision and status of the checkout that was built.
static CHECKOUT: OnceLock<(&str, &str)> = OnceLock::new();

/// Sets the revision that was built, and `Clean` or `Modified`, if the build knows them. The first call counts.
pub fn set_checkout(revision: Option<&'static str>, status: Option<&'static str>) {
    if let Some(revision) = revision {
        let _ = CHECKOUT.set((revision, status.unwrap_or("unknown")));
    }
}

/// A stamp: an environment variable at compile time, else `unknown`.
macro_rules! stamp {
    ($name:literal) => {
        match option_env!($name) {
            Some(stamp) => stamp,
            None => "unknown",
        }
    };
}

impl BuildInfo {
    /// The stamps alone, as `mixs version` prints them. They are set at compile time by `MIXER_BUILD_VERSION` and so on.
    pub fn stamped() -> Self {
        Self {
            version: stamp!("MIXER_BUILD_VERSION"),
            revision: stamp!("MIXER_BUILD_REVISION"),
            user: stamp!("MIXER_BUILD_USER"),
            host: stamp!("MIXER_BUILD_HOST"),
            hub: stamp!("MIXER_BUILD_HUB"),
            status: stamp!("MIXER_BUILD_STATUS"),
            tag: stamp!("MIXER_BUILD_TAG"),
            toolchain: stamp!("MIXER_BUILD_TOOLCHAIN"),
        }
    }

    /// The stamps, with the version of the package and the [checkout](set_checkout) if the build is not stamped with others.
    pub fn of_this_program() -> Self {
        let or = |stamp: &'static str, other: &'static str| if stamp == "unknown" { other } else { stamp };
        let (revision, status) = CHECKOUT.get().copied().unwrap_or(("unknown", "unknown"));
        let stamped = Self::stamped();
        Self {
            version: or(stamped.version, env!("CARGO_PKG_VERSION")),
            revision: or(stamped.revision, revision),
            status: or(stamped.status, status),
            ..stamped
        }
    }

    /// `user@host-hub-version-revision-status`: the short form of Mixer 1.0, in the server's log and at `/version`.
    pub fn short(&self) -> String {
        format!("{}@{}-{}-{}-{}-{}", self.user, self.host, self.hub, self.version, self.revision, self.status)
    }

    /// The version, with the revision if it is known: `0.1.0, revision abc`.
    pub fn with_revision(&self) -> String {
        match self.revision {
            "unknown" => self.version.to_owned(),
            revision => format!("{}, revision {revision}", self.version),
        }
    }

    /// What is known, a line each: the compiler is no Go.
    pub fn known(&self) -> String {
        use std::fmt::Write as _;
        let all = [
            ("Version", self.version),
            ("GitRevision", self.revision),
            ("GitTag", self.tag),
            ("BuildStatus", self.status),
            ("User", self.user),
            ("Host", self.host),
            ("Hub", self.hub),
            ("Compiler", self.toolchain),
        ];
        let mut text = String::new();
        for (name, value) in all.into_iter().filter(|(_, value)| *value != "unknown") {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{name}: {value}");
        }
        text
    }

    /// Six lines: the long form of Mixer 1.0.
    pub fn long(&self) -> String {
        format!(
            "Version: {}\nGitRevision: {}\nUser: {}@{}\nHub: {}\nGolangVersion: {}\nBuildStatus: {}\n",
            self.version, self.revision, self.user, self.host, self.hub, self.toolchain, self.status
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_are_those_of_istio_mixer() {
        let info = BuildInfo {
            version: "1.3.0",
            revision: "abc",
            user: "ann",
            host: "desk",
            hub: "docker.io/istio",
            status: "Clean",
            tag: "v1.3.0",
            toolchain: "rustc 1.95.0",
        };
        assert_eq!(info.short(), "ann@desk-docker.io/istio-1.3.0-abc-Clean");
        assert_eq!(info.long().lines().nth(2), Some("User: ann@desk"));
        assert_eq!(info.long().lines().count(), 6);
        assert_eq!(info.with_revision(), "1.3.0, revision abc");
        assert!(
            info.known().ends_with("\nHub: docker.io/istio\nCompiler: rustc 1.95.0\n"),
            "{}",
            info.known()
        );
    }

    #[test]
    fn the_toolchain_is_named_and_the_version_never_unknown() {
        let info = BuildInfo::of_this_program();
        assert!(info.toolchain.starts_with("rustc 1."), "{}", info.toolchain);
        assert_ne!(info.version, "unknown");
        assert!(!info.known().contains("unknown"), "{}", info.known());
    }
}
