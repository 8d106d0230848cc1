//! Statuses of HTTP in configurations: `envoy.type.v3.HttpStatus`.

use mixer_base::http_status;

use super::reader::{Fields, Message};

static STATUS: Message = Message { name: "HttpStatus", unsupported: &[] };

/// The first status that ends a request.
const FIRST: i64 = 200;

/// Reads a field that is a status; `None` if it is absent.
pub(super) fn read(holder: &Fields<'_>, name: &str) -> Option<u16> {
    let status = holder.message(name, &STATUS)?;
    let code = match status.get("code") {
        Some(code) => {
            let ending = http_status::NAMES.iter().filter(|(_, number)| *number >= FIRST);
            let ending = ending.filter_map(|(name, number)| Some((*name, u32::try_from(*number).ok()?)));
            code.choice(&ending.collect::<Vec<_>>()).and_then(|code| u16::try_from(code).ok())
        }
        None => {
            status.required("HttpStatusValidationError.Code: value must not be in list [Empty]");
            None
        }
    };
    status.finish();
    code
}
