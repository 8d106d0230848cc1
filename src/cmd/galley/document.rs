//! Documents of a running galley, from its ControlZ endpoint.

use serde_json::Value;

use crate::cmd::controlz::{Controlz, ControlzFlags};
use crate::cmd::endpoint::Program;
use crate::cmd::value;

/// Where galley is.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct ServerFlags {
    /// Running galley: its host, and the port of ControlZ, by default 9876.
    #[arg(long, default_value = "localhost:9876", value_parser = value::introspection_address, value_name = "ADDRESS")]
    server: String,
    #[command(flatten)]
    controlz: ControlzFlags,
}

impl ServerFlags {
    /// Its ControlZ.
    pub(super) fn controlz(&self) -> Controlz<'_> {
        self.other(&self.server, "--server")
    }

    /// ControlZ of a galley at another address, with the same token; `named_by`: the argument that names it.
    pub(super) fn other<'a>(&'a self, address: &'a str, named_by: &'static str) -> Controlz<'a> {
        self.controlz.at(Program::Galley, address, named_by)
    }
}

/// Whether a ControlZ endpoint is that of galley.
pub(crate) fn is_galley(server: Controlz<'_>) -> bool {
    server.find("/statusj/").is_some_and(|status| text(&status, "kind") == "GalleyStatus")
}

/// A text member; empty if there is none.
pub(super) fn text<'v>(value: &'v Value, name: &str) -> &'v str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// A number member.
pub(super) fn number(value: &Value, name: &str) -> u64 {
    value.get(name).and_then(Value::as_u64).unwrap_or_default()
}

/// A list member.
pub(super) fn list<'v>(value: &'v Value, name: &str) -> &'v [Value] {
    value.get(name).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// Whether a member is true.
pub(super) fn is(value: &Value, name: &str) -> bool {
    value.get(name).and_then(Value::as_bool).unwrap_or_default()
}

/// A sink in a text: `NODE (PEER)`.
pub(super) fn sink(value: &Value) -> String {
    format!("{} ({})", text(value, "node"), text(value, "peer"))
}
