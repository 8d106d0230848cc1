//! Version and build stamps.

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

    /// The stamps, with the version of the package if the build is not stamped with one.
    pub fn of_this_program() -> Self {
        let stamped = Self::stamped();
        let version = if stamped.version == "unknown" { env!("CARGO_PKG_VERSION") } else { stamped.version };
        Self { version, ..stamped }
    }

    /// `user@host-hub-version-revision-status`: the short form of Mixer 1.0, in the server's log and at `/version`.
    pub fn short(&self) -> String {
        format!("{}@{}-{}-{}-{}-{}", self.user, self.host, self.hub, self.version, self.revision, self.status)
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
    }

    #[test]
    fn the_toolchain_is_named_and_the_version_never_unknown() {
        let info = BuildInfo::of_this_program();
        assert!(info.toolchain.starts_with("rustc 1."), "{}", info.toolchain);
        assert_ne!(info.version, "unknown");
    }
}
