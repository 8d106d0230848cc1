//! `adapter new`: the files of a new adapter.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::PathBuf;

use super::NewArgs;
use super::resources::{self, Parts};
use super::template::TemplateChoice;
use super::{code, policy};
use crate::cmd::exit::{Exit, Failure, Outcome, Stop};
use crate::cmd::files::write_new;
use crate::cmd::io::Io;

/// Protos that every adapter has.
const PROTOS: [(&str, &str); 4] = [
    ("google/rpc/status.proto", include_str!("../../../proto/google/rpc/status.proto")),
    (
        "istio/mixer/adapter/model/v1beta1/adapter.proto",
        include_str!("../../../proto/istio/mixer/adapter/model/v1beta1/adapter.proto"),
    ),
    (
        "istio/mixer/adapter/model/v1beta1/extensions.proto",
        include_str!("../../../proto/istio/mixer/adapter/model/v1beta1/extensions.proto"),
    ),
    ("istio/policy/v1beta1/value.proto", include_str!("../../../proto/istio/policy/v1beta1/value.proto")),
];

/// Writes the adapter.
pub(super) fn run(args: &NewArgs, io: &mut Io) -> Outcome {
    let directory = args.directory.clone().unwrap_or_else(|| PathBuf::from(&args.name));
    let files = files(args)?;
    let hint = "nothing was written; give another name, or another directory with --directory";
    write_new(&directory, &files, hint)?;
    let mut written = files.len().to_string();
    written += " files in ";
    written += &directory.display().to_string();
    writeln!(io.out, "{}", crate::cmd::output::escaped(&written))?;
    writeln!(
        io.out,
        "{}",
        crate::cmd::output::escaped(&format!("next: {}", directory.join("README.md").display()))
    )?;
    Ok(Exit::Success)
}

/// The text of every file, by its path in the directory.
fn files(args: &NewArgs) -> Result<BTreeMap<String, String>, Stop> {
    let templates = distinct(&args.template)?;
    let adapter = NewAdapter { name: &args.name, namespace: &args.namespace, templates: &templates };
    let mut protos: BTreeMap<String, String> =
        PROTOS.into_iter().map(|(path, text)| (path.to_owned(), text.to_owned())).collect();
    protos.extend(templates.iter().map(|template| (template.path(), template.proto())));
    let paths: Vec<String> = templates.iter().map(|template| template.path()).collect();
    protos.insert(code::PARAMS_PROTO.to_owned(), code::params(&adapter));
    let parts = Parts {
        name: &args.name,
        namespace: &args.namespace,
        templates: &paths,
        params: Some(code::PARAMS_PROTO),
        session_based: false,
    };
    let resources = resources::render(&parts, &|| Ok(resources::in_memory(&protos)))?;
    let mut files: BTreeMap<String, String> =
        protos.into_iter().map(|(path, text)| (format!("proto/{path}"), text)).collect();
    files.insert("config/adapter.yaml".to_owned(), resources);
    files.insert("config/attributes.yaml".to_owned(), policy::attributes(&adapter));
    files.insert("config/policy.yaml".to_owned(), policy::policy(&adapter));
    files.extend(code::files(&adapter).map(|(path, text)| (path.to_owned(), text)));
    Ok(files)
}

/// An adapter to write.
pub(super) struct NewAdapter<'a> {
    pub(super) name: &'a str,
    pub(super) namespace: &'a str,
    pub(super) templates: &'a [&'a TemplateChoice],
}

impl NewAdapter<'_> {
    /// The text of a file with the name and the namespace in it.
    pub(super) fn named(&self, text: &str) -> String {
        text.replace("{{name}}", self.name).replace("{{namespace}}", self.namespace)
    }
}

/// The templates, each once. Errors: two of one name.
fn distinct(chosen: &[TemplateChoice]) -> Result<Vec<&TemplateChoice>, Stop> {
    let mut templates: Vec<&TemplateChoice> = Vec::with_capacity(chosen.len());
    for template in chosen {
        match templates.iter().find(|known| known.name() == template.name()) {
            None => templates.push(template),
            Some(known) if *known == template => {}
            Some(_) => {
                let what = format!("the template `{}` is given twice, with two varieties", template.name());
                return Err(Failure::usage(what).into());
            }
        }
    }
    Ok(templates)
}
