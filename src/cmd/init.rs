//! `init`: a commented policy to begin with.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::PathBuf;

use super::exit::{Exit, Outcome};
use super::files::write_new;
use super::io::Io;
use super::output::escaped;

/// Flags of `init`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct InitArgs {
    /// Directory to write to; it is created if it is missing.
    #[arg(default_value = ".", value_name = "DIR")]
    directory: PathBuf,
    /// Who asks the server: Envoy, or callers of the Mixer API, such as Istio's proxies.
    #[arg(long = "for", value_enum, default_value = "envoy", value_name = "CALLER")]
    caller: Caller,
}

/// Who asks the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Caller {
    /// An Envoy, with ext_authz, the rate limit service and the access log service.
    Envoy,
    /// Callers of the Mixer API.
    Mixer,
}

/// Files for every caller.
const COMMON: [(&str, &str); 3] = [
    ("policy/attributes.yaml", include_str!("init/attributes.yaml")),
    ("policy/policy.yaml", include_str!("init/policy.yaml")),
    ("tests.yaml", include_str!("init/tests.yaml")),
];
/// The bootstrap of the example, with ports and names in the place of its variables.
const ENVOY: &str = include_str!("../../examples/envoy/envoy.yaml");
const NAMES: [(&str, &str); 7] = [
    ("$ADMIN_PORT", "9901"),
    ("$ENVOY_PORT", "8000"),
    ("$UPSTREAM_PORT", "8081"),
    ("$MIXER_PORT", "9091"),
    ("domain: shop", "domain: web"),
    ("header_name: x-plan, descriptor_key: plan", "header_name: x-user, descriptor_key: user"),
    (" run.sh substitutes the ports.", " Requests to port 8000 go to the service on port 8081."),
];

/// What follows the start of the server.
const NEXT_WITH_ENVOY: [&str; 4] = [
    "  envoy -c envoy.yaml",
    "  python3 -m http.server 8081 --bind 127.0.0.1   # or your service: Envoy sends to its port 8081",
    "  curl -i -H 'x-user: bob' localhost:8000/        # 200, after five requests a minute 429",
    "  curl -i -H 'x-user: bob' localhost:8000/admin   # 403: only for administrators",
];
const NEXT_WITHOUT: [&str; 2] = [
    "  mixer check -s request.url_path=/admin,request.user=bob               # PERMISSION_DENIED",
    "  mixer check -s request.url_path=/,request.user=bob -q requests=1 -r 6  # five are granted",
];

/// Writes the files and says how to go on.
pub(crate) fn run(args: &InitArgs, io: &mut Io) -> Outcome {
    let files = files(args.caller);
    write_new(&args.directory, &files, "nothing was written; name another directory, or remove the file")?;
    let directory = args.directory.display().to_string();
    let mut lines = vec![
        format!("{} files in {directory}", files.len()),
        "next, servers in terminals of their own:".to_owned(),
    ];
    if directory != "." {
        lines.push(format!("  cd {}", for_shell(&directory)));
    }
    lines.extend(
        ["  mixer validate policy", "  mixer test tests.yaml", "  mixer server --config policy"]
            .map(String::from),
    );
    let more = match args.caller {
        Caller::Envoy => &NEXT_WITH_ENVOY[..],
        Caller::Mixer => &NEXT_WITHOUT,
    };
    lines.extend(more.iter().map(|line| (*line).to_owned()));
    for line in lines {
        writeln!(io.out, "{}", escaped(&line))?;
    }
    Ok(Exit::Success)
}

/// A path as an argument of a command of a shell.
fn for_shell(path: &str) -> String {
    // Otherwise it is an option, or the directory before.
    let path = if path.starts_with('-') { format!("./{path}") } else { path.to_owned() };
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-+,@%:".contains(&byte);
    if path.bytes().all(is_plain) { path } else { format!("'{}'", path.replace('\'', r"'\''")) }
}

/// The text of every file, by its path in the directory.
fn files(caller: Caller) -> BTreeMap<String, String> {
    let mut files: BTreeMap<String, String> =
        COMMON.into_iter().map(|(path, text)| (path.to_owned(), text.to_owned())).collect();
    let mut add = |path: &str, text: String| files.insert(path.to_owned(), text);
    match caller {
        Caller::Envoy => {
            let envoy = NAMES.iter().fold(ENVOY.to_owned(), |text, (name, value)| text.replace(name, value));
            add("envoy.yaml", envoy);
            add("policy/mapping.yaml", include_str!("init/mapping.yaml").to_owned());
            add("policy/limits.yaml", include_str!("init/limits.yaml").to_owned());
        }
        Caller::Mixer => {
            add("policy/quota.yaml", include_str!("init/quota.yaml").to_owned());
        }
    }
    files
}

#[cfg(test)]
mod tests {
    use super::for_shell;

    #[test]
    fn paths_are_arguments() {
        for (path, argument) in [
            ("shop", "shop"),
            ("/srv/a.b-c_d", "/srv/a.b-c_d"),
            ("a b", "'a b'"),
            ("-x", "./-x"),
            ("- x", "'./- x'"),
            ("it's", r"'it'\''s'"),
            ("$HOME", "'$HOME'"),
            ("~ann", "'~ann'"),
        ] {
            assert_eq!(for_shell(path), argument);
        }
    }
}
