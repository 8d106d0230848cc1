//! The shared files of AWS's tools: `credentials` and `config`.

use std::path::{Path, PathBuf};

use mixer_base::file_stamp::FileStamp;
use mixer_base::regular_file;

use super::role::{Base, Plan, Role};
use super::{AccessKey, AwsOptions, Environment};
use crate::credential::{self, Secret};

/// The largest file that is read.
const MAX_BYTES: u64 = 256 << 10;
/// Most profiles that are each other's source.
const MAX_SOURCES: usize = 5;

/// A profile in both files, which are read again when they change, on a thread: nobody waits long for a file system that hangs.
#[derive(Debug)]
pub(super) struct Profiles {
    profile: String,
    files: Files,
    known: Option<Known>,
    /// Whether the last attempt to read them again failed.
    is_stale: bool,
    /// How the files are looked at.
    look: Look,
}

/// `credentials` and `config`.
#[derive(Debug, Clone)]
struct Files([PathBuf; 2]);

/// How the files were at some time.
type Stamps = [Option<FileStamp>; 2];

/// Looks at the files. `None`: they are as they were.
type Look = fn(&Files, Option<Stamps>) -> Option<Found>;

/// What the files have.
struct Found {
    stamps: Stamps,
    /// Errors: the file that cannot be read, and why.
    texts: Result<[String; 2], String>,
}

/// What the files said.
#[derive(Debug)]
struct Known {
    stamps: Stamps,
    /// How a key is found. Errors: a profile that cannot be used, and why.
    plan: Result<Option<Plan>, String>,
    region: Option<String>,
}

impl Files {
    /// Blocks for as long as the file system does.
    fn look(&self, before: Option<Stamps>) -> Option<Found> {
        let stamps = self.0.each_ref().map(|file| stamp(file));
        if before.as_ref() == Some(&stamps) {
            return None;
        }
        let text = |index: usize| match (self.0.get(index), stamps.get(index)) {
            (Some(file), Some(Some(_))) => read(file).map_err(|why| format!("`{}`: {why}", file.display())),
            _ => Ok(String::new()),
        };
        let texts = text(0).and_then(|credentials| Ok([credentials, text(1)?]));
        Some(Found { stamps, texts })
    }

    /// The file whose name stands for both.
    fn first(&self) -> &Path {
        let [credentials, _] = &self.0;
        credentials
    }
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
        let files = Files([credentials, config]);
        Self { profile, files, known: None, is_stale: false, look: Files::look }
    }

    /// Where a key would be.
    pub(super) fn place(&self) -> String {
        format!("profile `{}` in `{}`", self.profile, self.files.first().display())
    }

    /// How a key is found; `None`: not by the profile. Waits at most a second for the file system, and not at all while an earlier look at the
    /// files goes on whose result is known already.
    ///
    /// Errors: it cannot be used, and why.
    pub(super) async fn plan(&mut self) -> Result<Option<Plan>, String> {
        let (files, look, before) = (self.files.clone(), self.look, self.stamps());
        let is_needed = self.known.is_none();
        let found =
            credential::read_elsewhere(self.files.first(), is_needed, move || look(&files, before)).await;
        match found {
            Ok(found) => self.take(found),
            // Another one looks at them.
            Err(credential::EARLIER) if !is_needed => {}
            Err(why) if is_needed => return Err(format!("{} cannot be read: {why}", self.place())),
            Err(why) => self.stale(&format!("`{}`: {why}", self.files.first().display())),
        }
        self.known.as_ref().map_or(Ok(None), |known| known.plan.clone())
    }

    /// The region. Waits at most two seconds for the file system, on this thread: for a start.
    pub(super) fn region(&mut self) -> Option<String> {
        let (files, look, before) = (self.files.clone(), self.look, self.stamps());
        match credential::read_blocking(self.files.first(), move || look(&files, before)) {
            Ok(found) => self.take(found),
            Err(why) => self.stale(&format!("`{}`: {why}", self.files.first().display())),
        }
        self.known.as_ref().and_then(|known| known.region.clone())
    }

    fn stamps(&self) -> Option<Stamps> {
        self.known.as_ref().map(|known| known.stamps)
    }

    /// What the files said is used on, and the log says so once.
    fn stale(&mut self, why: &str) {
        if !std::mem::replace(&mut self.is_stale, true) {
            tracing::warn!("credentials cannot be read: {why}");
        }
    }

    /// Takes what a look has found.
    fn take(&mut self, found: Option<Found>) {
        let Some(Found { stamps, texts }) = found else {
            self.is_stale = false;
            return;
        };
        let [credentials, config] = match &texts {
            Ok(texts) => texts,
            Err(why) => return self.stale(why),
        };
        self.is_stale = false;
        let find = |profile: &str, key: &str| {
            let of_config = match profile {
                "default" => "default".to_owned(),
                profile => format!("profile {profile}"),
            };
            let of_credentials = value(credentials, profile, key);
            of_credentials.or_else(|| value(config, &of_config, key)).map(str::to_owned)
        };
        let mut found = plan(&find, &self.profile);
        if stamps.iter().all(Option::is_none) {
            // A file that is being replaced is no reason to forget a key.
            found = self.known.take().map_or(found, |known| known.plan);
        }
        self.known = Some(Known { stamps, plan: found, region: find(&self.profile, "region") });
    }
}

/// The value of a key of a profile.
type Find<'f> = &'f dyn Fn(&str, &str) -> Option<String>;

/// How a profile finds a key; `None` if it says nothing about it. Errors: it cannot be used, and why.
fn plan(find: Find<'_>, profile: &str) -> Result<Option<Plan>, String> {
    let mut at = profile.to_owned();
    // From the last one that is assumed to the first, and the profiles that have them.
    let (mut roles, mut seen) = (Vec::new(), Vec::new());
    let base = loop {
        let arn = find(&at, "role_arn").filter(|_| !seen.contains(&at));
        let Some(arn) = arn else {
            match key(find, &at) {
                Some(key) => break Base::Key(key),
                None if roles.is_empty() => return Ok(None),
                None => return Err(format!("profile `{at}`, the source of a role, has no access key")),
            }
        };
        if find(&at, "mfa_serial").is_some() {
            return Err(format!(
                "profile `{at}` needs a device (`mfa_serial`), which a server does not have"
            ));
        }
        let role = Role {
            arn,
            session: find(&at, "role_session_name"),
            external_id: find(&at, "external_id"),
            seconds: find(&at, "duration_seconds"),
        };
        if let Some(file) = find(&at, "web_identity_token_file") {
            break Base::WebIdentity(role, file.into());
        }
        roles.push(role);
        let source = (find(&at, "source_profile"), find(&at, "credential_source"));
        match (source.0, source.1.as_deref()) {
            (Some(source), None) if roles.len() < MAX_SOURCES => {
                seen.push(std::mem::replace(&mut at, source))
            }
            (Some(_), None) => {
                return Err(format!("more than {MAX_SOURCES} profiles are sources of `{profile}`"));
            }
            (None, Some("Environment")) => break Base::Environment,
            (None, Some("EcsContainer" | "Ec2InstanceMetadata")) => break Base::Endpoint,
            (None, Some(other)) => return Err(format!("profile `{at}`: `credential_source` is `{other}`")),
            _ => {
                return Err(format!(
                    "profile `{at}` has `role_arn`, and needs one of `source_profile`, `credential_source` and \
                     `web_identity_token_file`"
                ));
            }
        }
    };
    roles.reverse();
    Ok(Some(Plan { base, roles }))
}

/// The access key of a profile.
fn key(find: Find<'_>, profile: &str) -> Option<AccessKey> {
    let (id, secret) = (find(profile, "aws_access_key_id")?, find(profile, "aws_secret_access_key")?);
    let token = find(profile, "aws_session_token").map(Secret::new);
    Some(AccessKey { id, secret: Secret::new(secret), token })
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
    use super::*;

    /// The plan of a profile in a configuration file.
    fn planned(text: &str, profile: &str) -> Result<Option<Plan>, String> {
        plan(&|profile, key| value(text, profile, key).map(str::to_owned), profile)
    }

    #[test]
    fn a_role_is_assumed_by_its_source() {
        let text = "[keys]\naws_access_key_id=A\naws_secret_access_key=s\n\
                    [one]\nrole_arn=arn:1\nsource_profile=keys\nexternal_id=x\nduration_seconds=900\n\
                    [two]\nrole_arn=arn:2\nsource_profile=one\nrole_session_name=me\n\
                    [own]\nrole_arn=arn:3\nsource_profile=own\naws_access_key_id=B\naws_secret_access_key=s\n\
                    [web]\nrole_arn=arn:4\nweb_identity_token_file=/t\n\
                    [machine]\nrole_arn=arn:5\ncredential_source=Ec2InstanceMetadata\n\
                    [environment]\nrole_arn=arn:6\ncredential_source=Environment\n";
        let role = |arn: &str| Role { arn: arn.to_owned(), session: None, external_id: None, seconds: None };
        let of = |profile: &str| planned(text, profile).unwrap().unwrap();
        let base = |base: &Base| match base {
            Base::Key(key) => key.id.clone(),
            other => format!("{other:?}"),
        };
        assert_eq!((base(&of("keys").base), of("keys").roles), ("A".to_owned(), vec![]));
        let first =
            Role { external_id: Some("x".to_owned()), seconds: Some("900".to_owned()), ..role("arn:1") };
        let second = Role { session: Some("me".to_owned()), ..role("arn:2") };
        assert_eq!((base(&of("two").base), of("two").roles), ("A".to_owned(), vec![first, second]));
        assert_eq!((base(&of("own").base), of("own").roles), ("B".to_owned(), vec![role("arn:3")]));
        assert_eq!(of("web").base, Base::WebIdentity(role("arn:4"), "/t".into()));
        assert_eq!((of("machine").base, of("environment").base), (Base::Endpoint, Base::Environment));
        assert_eq!(planned(text, "none"), Ok(None));
    }

    #[test]
    fn a_profile_that_cannot_be_used_is_told() {
        let refused = |text: &str| planned(text, "p").unwrap_err();
        for (text, why) in [
            ("[p]\nrole_arn=a\n", "needs one of `source_profile`"),
            ("[p]\nrole_arn=a\nsource_profile=q\ncredential_source=Environment\n", "needs one of"),
            ("[p]\nrole_arn=a\nsource_profile=q\n", "profile `q`, the source of a role, has no access key"),
            ("[p]\nrole_arn=a\nsource_profile=q\n[q]\nrole_arn=b\nsource_profile=p\n", "has no access key"),
            ("[p]\nrole_arn=a\ncredential_source=Cloud\n", "`credential_source` is `Cloud`"),
            ("[p]\nrole_arn=a\nsource_profile=q\nmfa_serial=1\n", "needs a device"),
        ] {
            assert!(refused(text).contains(why), "{text}: {}", refused(text));
        }
        let text: String =
            (0..9).map(|at| format!("[p{at}]\nrole_arn=a\nsource_profile=p{}\n", at + 1)).collect();
        assert!(planned(&text, "p0").unwrap_err().contains("more than 5 profiles"));
    }

    /// Held while the file system of the next test hangs.
    static HUNG: parking_lot::Mutex<()> = parking_lot::Mutex::new(());

    fn hangs(files: &Files, before: Option<Stamps>) -> Option<Found> {
        drop(HUNG.lock());
        files.look(before)
    }

    #[test]
    fn nobody_waits_for_a_file_system_that_hangs() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("credentials");
        let write = |id: &str| {
            std::fs::write(&file, format!("[default]\naws_access_key_id={id}\naws_secret_access_key=s\n"))
                .unwrap();
        };
        write("first");
        let options = AwsOptions { credentials_file: file.clone(), ..AwsOptions::default() };
        let id = |plan: Result<Option<Plan>, String>| match plan {
            Ok(Some(Plan { base: Base::Key(key), .. })) => key.id,
            other => format!("{other:?}"),
        };
        let hung = HUNG.lock();
        runtime.block_on(async {
            let mut profiles = Profiles::new(&options, &|_| None);
            assert_eq!(id(profiles.plan().await), "first");
            write("second, longer");
            profiles.look = hangs;
            // Another task of the thread goes on meanwhile.
            let mut turns = 0;
            let others = async {
                loop {
                    turns += 1;
                    tokio::time::sleep(std::time::Duration::from_millis(1)).await;
                }
            };
            tokio::select! {
                plan = profiles.plan() => assert_eq!(id(plan), "first"),
                () = others => {}
            }
            assert!(turns > 1, "{turns}");
            assert!(profiles.is_stale, "and it is told");
            // Only the first one waits.
            tokio::select! {
                biased;
                plan = profiles.plan() => assert_eq!(id(plan), "first"),
                () = std::future::ready(()) => panic!("it waits"),
            }
            let mut new = Profiles { look: hangs, ..Profiles::new(&options, &|_| None) };
            let refused = new.plan().await.unwrap_err();
            assert!(
                refused.ends_with(
                    "cannot be read: an earlier read of the file has not ended: its file system may hang"
                ),
                "{refused}"
            );
            assert_eq!(new.region(), None);
            drop(hung);
            while id(profiles.plan().await) == "first" {
                tokio::task::yield_now().await;
            }
            assert_eq!(
                (id(profiles.plan().await), id(new.plan().await)),
                ("second, longer".to_owned(), "second, longer".to_owned())
            );
            assert!(!profiles.is_stale);
        });
    }

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
