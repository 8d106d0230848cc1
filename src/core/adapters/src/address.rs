//! Addresses of backends in parameters.

/// Host and port of `HOST:PORT`; an IPv6 address is in brackets. Errors: Go's text, without the address.
pub(crate) fn split(address: &str) -> Result<(&str, &str), &'static str> {
    let missing = Err("missing port in address");
    let Some((host, port)) = address.rsplit_once(':') else { return missing };
    match host.strip_prefix('[') {
        Some(inner) => match inner.strip_suffix(']') {
            Some(host) => Ok((host, port)),
            // The colon was one of the address.
            None if port.ends_with(']') => missing,
            None => Err("missing ']' in address"),
        },
        None if host.contains(':') => Err("too many colons in address"),
        None => Ok((host, port)),
    }
}

/// The address as a client needs it: an address without a host is one of this machine.
pub(crate) fn dialed(address: &str) -> String {
    if address.starts_with(':') { format!("localhost{address}") } else { address.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::split;
    use crate::testing::problems;
    use mixer_engine::adapter::Adapter;

    #[test]
    #[expect(clippy::field_reassign_with_default, reason = "the type has no name here")]
    fn passwords_in_addresses_are_not_shown() {
        let wrong = || "ann:hunter2@backend:x y".to_owned();
        let mut of_stackdriver = <crate::stackdriver::Stackdriver as Adapter>::Params::default();
        of_stackdriver.endpoint = wrong();
        let all = [
            problems::<crate::bypass::Bypass>(&crate::bypass::Params {
                backend_address: wrong(),
                ..Default::default()
            }),
            problems::<crate::dogstatsd::DogStatsd>(&crate::dogstatsd::Params {
                address: wrong(),
                ..Default::default()
            }),
            problems::<crate::fluentd::Fluentd>(&crate::fluentd::Params {
                address: wrong(),
                ..Default::default()
            }),
            problems::<crate::solarwinds::Solarwinds>(&crate::solarwinds::Params {
                papertrail_address: wrong(),
                ..Default::default()
            }),
            problems::<crate::stackdriver::Stackdriver>(&of_stackdriver),
        ];
        for problems in all {
            let shown = problems.iter().filter(|text| text.contains("***@backend:x")).count();
            assert!(shown > 0 && !problems.concat().contains("hunter2"), "{problems:?}");
        }
    }

    #[test]
    fn addresses_are_split_as_go_does() {
        for (address, parts) in [
            ("localhost:8125", Ok(("localhost", "8125"))),
            (":8125", Ok(("", "8125"))),
            ("x:", Ok(("x", ""))),
            ("[::1]:80", Ok(("::1", "80"))),
            ("", Err("missing port in address")),
            ("x", Err("missing port in address")),
            ("[::1]", Err("missing port in address")),
            ("::1", Err("too many colons in address")),
            ("a:b:c", Err("too many colons in address")),
            ("[::1:80", Err("missing ']' in address")),
        ] {
            assert_eq!(split(address), parts, "{address}");
        }
    }
}
