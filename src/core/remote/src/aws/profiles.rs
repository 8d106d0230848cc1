//! The shared files of AWS's tools: `credentials` and `config`.

use std::path::{Path, PathBuf};

use mixer_base::file_stamp::FileStamp;
use mixer_base::regular_file;

use super::{AccessKey, AwsOptions, Environment};
use crate::credential::Secret;

/// The largest file that is read.
const MAX_BYTES: u64 = 256 << 10;

/// A profile in both files, which are read again when they change.
#[derive(Debug)]
pub(super) struct Profiles {
    profile: String,
    credentials: PathBuf,
    config: PathBuf,
    known: Option<Known>,
    /// Whether the last attempt to read them again failed.
    is_stale: bool,
}

/// What the files said.
#[derive(Debug, Default)]
struct Known {
    stamps: [Option<FileStamp>; 2],
    key: Option<AccessKey>,
    region: Option<String>,
}

impl Profiles {
    pub(super) fn new(options: &AwsOptions, environment: Environment<'_>) -> Self {
        let home = |name: &str| environment("HOME").map(|home| Path::new(&home).join(".aws").join(name));
        let file =
            |variable: &str, name: &str| environment(variable).map(PathBuf::from).or_else(|| home(name));
        let credentials = match options.credentials_file.as_os_str().is_empty() {
            true => file("AWS_SHARED_CREDENTIALS_FILE", "credentials").unwrap_or_default(),
            false => options.credentials_file.clone(),
        };
        let profile = match options.profile.as_str() {
            "" => environment("AWS_PROFILE").unwrap_or_else(|| "default".to_owned()),
            profile => profile.to_owned(),
        };
        let config = file("AWS_CONFIG_FILE", "config").unwrap_or_default();
        Self { profile, credentials, config, known: None, is_stale: false }
    }

    /// Where a key would be.
    pub(super) fn place(&self) -> String {
        format!("profile `{}` in `{}`", self.profile, self.credentials.display())
    }

    pub(super) fn key(&mut self) -> Option<AccessKey> {
        self.refresh();
        self.known.as_ref().and_then(|known| known.key.clone())
    }

    pub(super) fn region(&mut self) -> Option<String> {
        self.refresh();
        self.known.as_ref().and_then(|known| known.region.clone())
    }

    /// Reads the files if they have changed. If they cannot be read, what they said is used on, and the log says so once.
    fn refresh(&mut self) {
        let files = [&self.credentials, &self.config];
        let stamps = files.map(|file| stamp(file));
        if self.known.as_ref().is_some_and(|known| known.stamps == stamps) {
            return;
        }
        let mut texts = [String::new(), String::new()];
        for (file, (text, stamp)) in files.into_iter().zip(texts.iter_mut().zip(&stamps)) {
            if stamp.is_none() {
                continue;
            }
            match read(file) {
                Ok(read) => *text = read,
                Err(why) => {
                    if !std::mem::replace(&mut self.is_stale, true) {
                        let file = file.display();
                        tracing::warn!("credentials cannot be read: `{file}`: {why}");
                    }
                    return;
                }
            }
        }
        self.is_stale = false;
        let [credentials, config] = &texts;
        let of_config = match self.profile.as_str() {
            "default" => "default".to_owned(),
            profile => format!("profile {profile}"),
        };
        let find = |key: &str| {
            let of_credentials = value(credentials, &self.profile, key);
            of_credentials.or_else(|| value(config, &of_config, key)).map(str::to_owned)
        };
        let pair = (find("aws_access_key_id"), find("aws_secret_access_key"));
        let key = match pair {
            (Some(id), Some(secret)) => {
                let token = find("aws_session_token").map(Secret::new);
                Some(AccessKey { id, secret: Secret::new(secret), token })
            }
            _ => None,
        };
        // A file that is being replaced is no reason to forget a key.
        let was_there = self.known.as_ref().and_then(|known| known.key.clone());
        let key = key.or(was_there.filter(|_| stamps.iter().all(Option::is_none)));
        self.known = Some(Known { stamps, key, region: find("region") });
    }
}

fn stamp(file: &Path) -> Option<FileStamp> {
    std::fs::metadata(file).ok().map(|metadata| FileStamp::of(&metadata))
}

fn read(file: &Path) -> Result<String, String> {
    let (open, metadata) = regular_file::open(file).map_err(|error| error.to_string())?;
    let bytes = regular_file::read_open(&open, &metadata, MAX_BYTES).map_err(|error| error.to_string())?;
    String::from_utf8(bytes).map_err(|_| "it is not UTF-8".to_owned())
}

/// The value of a key in a section. Indented lines belong to a setting before them, and are none.
fn value<'t>(text: &'t str, section: &str, key: &str) -> Option<&'t str> {
    let mut is_within = false;
    for line in text.lines() {
        if line.starts_with(['#', ';']) || line.starts_with(char::is_whitespace) {
            continue;
        }
        if let Some(name) = line.strip_prefix('[') {
            let name = name.split(']').next().unwrap_or_default();
            is_within = name.split_whitespace().eq(section.split_whitespace());
        } else if let Some((name, value)) = line.split_once('=')
            && is_within
            && name.trim() == key
        {
            return Some(value.trim()).filter(|value| !value.is_empty());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::value;

    #[test]
    fn values_are_those_of_their_section() {
        let text = "# none\nregion = nowhere\n[default]\naws_access_key_id=A=B\n\n[ profile  x ]\nregion = eu-west-1 \n  region = nested\n\
                    s3 =\n  region = deep\n; region = comment\n[profile y]\nregion=\n";
        for (section, key, expected) in [
            ("default", "aws_access_key_id", Some("A=B")),
            ("default", "region", None),
            ("profile x", "region", Some("eu-west-1")),
            ("profile y", "region", None),
            ("profile z", "region", None),
            ("profile x", "s3", None),
        ] {
            assert_eq!(value(text, section, key), expected, "{section} {key}");
        }
    }
}
