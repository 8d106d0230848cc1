//! The embedded stylesheet and script. Their paths contain a hash of the content, so browsers may cache them indefinitely.

use std::sync::OnceLock;

use axum::response::{IntoResponse as _, Response};
use http::{StatusCode, header};

static STYLE: &str = include_str!("assets/ctrlz.css");
static SCRIPT: &str = include_str!("assets/ctrlz.js");

/// The icon, inline.
pub(super) const ICON: &str = "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 24 24'%3E%3Cg fill='none' stroke='%230a7d6c' stroke-width='2' stroke-linecap='round'%3E%3Cpath d='M5 3v6M5 15v6M12 3v10M12 19v2M19 3v2M19 11v10'/%3E%3C/g%3E%3Cg fill='%230a7d6c'%3E%3Ccircle cx='5' cy='12' r='2.6'/%3E%3Ccircle cx='12' cy='16' r='2.6'/%3E%3Ccircle cx='19' cy='8' r='2.6'/%3E%3C/g%3E%3C/svg%3E";

fn stamp() -> u64 {
    static STAMP: OnceLock<u64> = OnceLock::new();
    *STAMP.get_or_init(|| {
        // FNV-1a, which is stable across processes.
        let bytes = STYLE.bytes().chain(SCRIPT.bytes());
        bytes
            .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
    })
}

/// Path of the stylesheet.
pub(super) fn style_path() -> String {
    format!("/assets/ctrlz.css?v={:x}", stamp())
}

/// Path of the script.
pub(super) fn script_path() -> String {
    format!("/assets/ctrlz.js?v={:x}", stamp())
}

/// The asset with this name.
pub(super) fn file(name: &str) -> Option<Response> {
    let (kind, text) = match name {
        "ctrlz.css" => ("text/css; charset=utf-8", STYLE),
        "ctrlz.js" => ("text/javascript; charset=utf-8", SCRIPT),
        _ => return None,
    };
    let keep = "public, max-age=31536000, immutable";
    Some(
        (StatusCode::OK, [(header::CONTENT_TYPE, kind), (header::CACHE_CONTROL, keep)], text).into_response(),
    )
}
