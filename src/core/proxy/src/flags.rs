//! Response flags: why a response is not the upstream's.

/// A response flag, by the name in access logs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flag {
    /// No healthy upstream.
    UH,
    /// Upstream connection failure.
    UF,
    /// Upstream overflow.
    UO,
    /// No route.
    NR,
    /// Retry limit, or connection attempts, exhausted.
    Urx,
    /// No cluster.
    NC,
    /// Upstream request timeout.
    UT,
    /// Upstream connection termination.
    UC,
    /// Upstream protocol error.
    Upe,
    /// Downstream connection termination.
    DC,
    /// Downstream remote reset: a stream of HTTP/2.
    DR,
    /// Downstream protocol error.
    Dpe,
    /// Stream idle timeout.
    SI,
    /// Upstream remote reset.
    UR,
    /// Refused by an external authorizer, such as Mixer.
    Uaex,
    /// Over a rate limit.
    RL,
    /// The server of rate limits did not decide.
    Rlse,
}

const NAMES: [(Flag, &str); 17] = [
    (Flag::UH, "UH"),
    (Flag::UF, "UF"),
    (Flag::UO, "UO"),
    (Flag::NR, "NR"),
    (Flag::Urx, "URX"),
    (Flag::NC, "NC"),
    (Flag::UT, "UT"),
    (Flag::UC, "UC"),
    (Flag::Upe, "UPE"),
    (Flag::DC, "DC"),
    (Flag::DR, "DR"),
    (Flag::Dpe, "DPE"),
    (Flag::SI, "SI"),
    (Flag::UR, "UR"),
    (Flag::Uaex, "UAEX"),
    (Flag::RL, "RL"),
    (Flag::Rlse, "RLSE"),
];

/// The flags of a response in the order in which they were set; at most four, more have no meaning.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Flags([Option<Flag>; 4]);

impl Flags {
    /// Sets a flag, unless it is set.
    pub(crate) fn set(&mut self, flag: Flag) {
        if self.0.contains(&Some(flag)) {
            return;
        }
        if let Some(place) = self.0.iter_mut().find(|place| place.is_none()) {
            *place = Some(flag);
        }
    }

    /// The flags, in the order in which they were set.
    pub(crate) fn iter(self) -> impl Iterator<Item = Flag> {
        self.0.into_iter().flatten()
    }

    /// With a flag.
    #[cfg(test)]
    #[must_use]
    pub(crate) fn with(mut self, flag: Flag) -> Self {
        self.set(flag);
        self
    }

    /// Appends the flags, joined by commas, or `-`.
    pub(crate) fn write(self, out: &mut Vec<u8>) {
        let mut separator: &[u8] = b"";
        for flag in self.iter() {
            let name = NAMES.iter().find(|(known, _)| *known == flag).map_or("", |(_, name)| name);
            out.extend_from_slice(separator);
            out.extend_from_slice(name.as_bytes());
            separator = b",";
        }
        if separator.is_empty() {
            out.push(b'-');
        }
    }
}
