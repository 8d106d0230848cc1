//! Addresses of the command line in what a command says of itself: without users, passwords and parameters.

use std::collections::BTreeMap;
use std::ffi::OsString;

use mixer_base::secrets::mask_address;

/// The addresses of a command line that have something secret, with what is shown instead.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct GivenAddresses(Vec<(String, String)>);

impl GivenAddresses {
    /// Those of these arguments.
    pub(crate) fn of<'a>(args: impl IntoIterator<Item = &'a OsString>) -> Self {
        let mut secret: BTreeMap<String, String> = BTreeMap::new();
        for arg in args {
            let arg = arg.to_string_lossy();
            // `--server=ADDRESS`, `-mADDRESS` and an address alone.
            let value = match arg.strip_prefix("--") {
                Some(flag) => flag.split_once('=').map_or("", |(_, value)| value),
                None if arg.starts_with('-') => arg.get(2..).unwrap_or_default(),
                None => &*arg,
            };
            // A flag that takes several may tell which of them is wrong.
            for address in std::iter::once(value).chain(value.split(',')).filter(|text| may_be_address(text))
            {
                let shown = mask_address(address);
                if shown == address {
                    continue;
                }
                // Without its scheme, as connections name it.
                if let (Some((_, place)), Some((_, masked))) =
                    (address.split_once("://"), shown.split_once("://"))
                {
                    secret.insert(place.to_owned(), masked.to_owned());
                }
                secret.insert(address.to_owned(), shown.into_owned());
            }
        }
        let mut secret: Vec<_> = secret.into_iter().filter(|(address, _)| !address.is_empty()).collect();
        // One may be a part of another.
        secret.sort_by_key(|(address, _)| std::cmp::Reverse(address.len()));
        Self(secret)
    }

    /// Whether nothing is secret in them.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A text without what is secret in them.
    pub(crate) fn shown(&self, text: &str) -> String {
        let all = self.0.iter();
        all.fold(text.to_owned(), |text, (address, shown)| text.replace(address, shown))
    }
}

/// Whether a text is written like an address: with a scheme, without one (`//user:password@host`), or with a user and a password. An attribute
/// (`source.user=a:b@c`) is none.
fn may_be_address(text: &str) -> bool {
    let has_scheme = || text.split_once("://").is_some_and(|(scheme, _)| !scheme.contains('='));
    let has_user = || text.split_once('@').is_some_and(|(user, _)| user.contains(':') && !user.contains('='));
    text.starts_with("//") || has_scheme() || has_user()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_arguments_are_shown_without_secrets() {
        let shown = |args: &[&str], text: &str| {
            let args: Vec<OsString> = args.iter().map(OsString::from).collect();
            GivenAddresses::of(&args).shown(text)
        };
        for (arg, text, expected) in [
            (
                "http://u:PW@h:1/x?k=PW",
                "`http://u:PW@h:1/x?k=PW` is wrong",
                "`http://***@h:1/x?k=***` is wrong",
            ),
            ("--server=https://u:PW@h", "u:PW@h cannot be reached", "***@h cannot be reached"),
            ("-mtcp://u:PW@h", "`tcp://u:PW@h`", "`tcp://***@h`"),
            ("//u:PW@h:1/", "`//u:PW@h:1/`", "`//***@h:1/`"),
            ("u:PW@h:1", "`u:PW@h:1`", "`***@h:1`"),
            ("http://a,http://u:PW@h", "of http://u:PW@h", "of http://***@h"),
            ("source.user=a:b@c", "`source.user=a:b@c`", "`source.user=a:b@c`"),
            ("a@b", "`a@b`", "`a@b`"),
            ("fs:///etc/a@b", "`fs:///etc/a@b`", "`fs:///etc/a@b`"),
        ] {
            assert_eq!(shown(&["mixer", "check", arg], text), expected, "{arg}");
        }
    }
}
