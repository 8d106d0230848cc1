//! `adapter resources`: the templates and the adapter as resources, from their protos.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use base64::Engine as _;
use protox::Compiler;
use protox::file::{ChainFileResolver, File, FileResolver, GoogleFileResolver};

use super::ResourcesArgs;
use crate::cmd::exit::{Exit, Failure, Outcome, Stop};
use crate::cmd::io::Io;
use mixer_engine::template::{TemplateInfo, check_params};

/// Prints the resources.
pub(super) fn run(args: &ResourcesArgs, io: &mut Io) -> Outcome {
    let compiler = || {
        Compiler::new(&args.proto_dir).map_err(|error| {
            Stop::from(Failure::local("cannot read the directories of the protos").cause(error))
        })
    };
    let parts = Parts {
        name: &args.name,
        namespace: &args.namespace,
        templates: &args.template,
        params: args.params.as_deref(),
        session_based: args.session_based,
    };
    io.out.write_all(render(&parts, &compiler)?.as_bytes())?;
    Ok(Exit::Success)
}

/// What makes an adapter.
pub(super) struct Parts<'p> {
    pub(super) name: &'p str,
    pub(super) namespace: &'p str,
    /// The protos of its templates.
    pub(super) templates: &'p [String],
    /// The proto of its parameters.
    pub(super) params: Option<&'p str>,
    pub(super) session_based: bool,
}

/// The resources in YAML. `compiler` makes a compiler that finds the protos.
pub(super) fn render(
    parts: &Parts<'_>,
    compiler: &dyn Fn() -> Result<Compiler, Stop>,
) -> Result<String, Stop> {
    let Parts { name, namespace, .. } = parts;
    let mut text = String::from("# Made of the protos; the README has the command that makes it again.\n");
    let mut names = Vec::new();
    for proto in parts.templates {
        let descriptor = descriptors(proto, compiler()?)?;
        // The server reads it likewise.
        TemplateInfo::from_descriptor(proto.as_str(), &descriptor).map_err(|error| {
            Failure::local(format!("`{proto}` is no template")).cause(&error).hint(error.hint())
        })?;
        let template = Path::new(proto).file_stem().unwrap_or_default().to_string_lossy();
        let template = template.to_ascii_lowercase().replace('_', "-");
        let _ = write!(
            text,
            "apiVersion: config.istio.io/v1alpha2\nkind: template\n\
             metadata: {{name: {template}, namespace: {namespace}}}\nspec:\n  descriptor: \"{descriptor}\"\n---\n",
        );
        names.push(template);
    }
    let params = match parts.params {
        None => String::new(),
        Some(proto) => {
            let descriptor = descriptors(proto, compiler()?)?;
            check_params(&descriptor).map_err(|error| {
                Failure::local(format!("`{proto}` has no parameters")).cause(&error).hint(error.hint())
            })?;
            format!("\n  config: \"{descriptor}\"")
        }
    };
    let _ = writeln!(
        text,
        "apiVersion: config.istio.io/v1alpha2\nkind: adapter\nmetadata: {{name: {name}, namespace: {namespace}}}\n\
         spec:\n  templates: [{}]\n  session_based: {}{params}",
        names.join(", "),
        parts.session_based,
    );
    Ok(text)
}

/// The descriptors of a proto and all that it imports, in base64.
fn descriptors(proto: &str, mut compiler: Compiler) -> Result<String, Stop> {
    compiler
        .include_imports(true)
        .open_file(proto)
        .map_err(|error| Failure::local(format!("cannot compile `{proto}`")).cause(located(&error)))?;
    Ok(base64::engine::general_purpose::STANDARD.encode(compiler.encode_file_descriptor_set()))
}

/// The error with its place, in one line.
fn located(error: &protox::Error) -> String {
    // `Debug` has the place, `Display` has not.
    format!("{error:?}").lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" ")
}

/// A compiler of protos in memory.
pub(super) fn in_memory(protos: &BTreeMap<String, String>) -> Compiler {
    let mut files = ChainFileResolver::new();
    files.add(InMemory(protos.clone()));
    files.add(GoogleFileResolver::new());
    Compiler::with_file_resolver(files)
}

struct InMemory(BTreeMap<String, String>);

impl FileResolver for InMemory {
    fn open_file(&self, name: &str) -> Result<File, protox::Error> {
        match self.0.get(name) {
            Some(source) => File::from_source(name, source),
            None => Err(protox::Error::file_not_found(name)),
        }
    }
}
