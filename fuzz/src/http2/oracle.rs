//! The errors that RFC 9113 requires for a client frame.

use super::client::Client;
use super::frame::{Frame, settings};

pub(super) const PROTOCOL_ERROR: u32 = 1;
pub(super) const FLOW_CONTROL_ERROR: u32 = 3;
pub(super) const STREAM_CLOSED: u32 = 5;
pub(super) const FRAME_SIZE_ERROR: u32 = 6;
pub(super) const COMPRESSION_ERROR: u32 = 9;
pub(super) const ENHANCE_YOUR_CALM: u32 = 11;

/// Connection errors that this frame must cause; any of them is valid.
pub(super) fn violations(frame: &Frame, client: &Client) -> Vec<u32> {
    let mut found = Vec::new();
    let mut rule = |broken: bool, reason: u32| found.extend(broken.then_some(reason));
    let Frame { kind, flags, stream, payload } = frame;
    let (is_idle, length) = (*stream > client.last_stream, payload.len());
    if let Some(open) = client.block {
        rule(*kind != 9 || *stream != open, PROTOCOL_ERROR);
    }
    match kind {
        0 => {
            rule(*stream == 0 || is_idle, PROTOCOL_ERROR);
            rule(frame.is_padded_too_much(), PROTOCOL_ERROR);
        }
        1 => {
            rule(stream.is_multiple_of(2), PROTOCOL_ERROR);
            rule(frame.is_padded_too_much(), PROTOCOL_ERROR);
            let pad = if flags & 8 != 0 { 1 + usize::from(payload.first().copied().unwrap_or(0)) } else { 0 };
            rule(flags & 0x20 != 0 && length < pad + 5, FRAME_SIZE_ERROR);
        }
        2 => rule(*stream == 0, PROTOCOL_ERROR),
        3 => {
            rule(*stream == 0 || is_idle, PROTOCOL_ERROR);
            rule(length != 4, FRAME_SIZE_ERROR);
        }
        4 => {
            rule(*stream != 0, PROTOCOL_ERROR);
            rule(if flags & 1 != 0 { length > 0 } else { !length.is_multiple_of(6) }, FRAME_SIZE_ERROR);
            if flags & 1 == 0 {
                let windows = client.streams.values().filter(|stream| stream.is_open());
                let largest = windows.map(|stream| stream.window - client.initial_window).max().unwrap_or(0);
                for (name, value) in settings(payload) {
                    rule(name == 4 && i64::from(value) + largest > 0x7fff_ffff, FLOW_CONTROL_ERROR);
                    rule(name == 2 && value > 1, PROTOCOL_ERROR);
                    rule(name == 4 && value > 0x7fff_ffff, FLOW_CONTROL_ERROR);
                    rule(name == 5 && !(16_384..=0xff_ffff).contains(&value), PROTOCOL_ERROR);
                }
            }
        }
        5 => rule(true, PROTOCOL_ERROR),
        6 => {
            rule(*stream != 0, PROTOCOL_ERROR);
            rule(length != 8, FRAME_SIZE_ERROR);
        }
        7 => {
            rule(*stream != 0, PROTOCOL_ERROR);
            rule(length < 8, FRAME_SIZE_ERROR);
        }
        8 => {
            rule(length != 4, FRAME_SIZE_ERROR);
            rule(is_idle, PROTOCOL_ERROR);
            if let (0, Some(number)) = (*stream, frame.number()) {
                let increment = i64::from(number & 0x7fff_ffff);
                rule(increment == 0, PROTOCOL_ERROR);
                rule(client.window + increment > 0x7fff_ffff, FLOW_CONTROL_ERROR);
            }
        }
        9 => rule(client.block.is_none(), PROTOCOL_ERROR),
        _ => {}
    }
    found
}

/// Connection errors that this frame may cause, given earlier frames.
pub(super) fn state_violations(frame: &Frame) -> Vec<u32> {
    match frame.kind {
        0 => vec![FLOW_CONTROL_ERROR, ENHANCE_YOUR_CALM],
        1 | 9 => vec![COMPRESSION_ERROR, STREAM_CLOSED, ENHANCE_YOUR_CALM],
        // PRIORITY on an idle stream.
        2 if frame.payload.len() != 5 => vec![FRAME_SIZE_ERROR],
        3 | 8 => vec![ENHANCE_YOUR_CALM],
        4 => vec![FLOW_CONTROL_ERROR],
        _ => Vec::new(),
    }
}

/// The stream error that this frame must cause.
pub(super) fn stream_violation(frame: &Frame, client: &Client) -> Option<(u32, u32)> {
    let stream = client.streams.get(&frame.stream).filter(|stream| stream.is_open())?;
    let reason = match frame.kind {
        0 if stream.client_ended => STREAM_CLOSED,
        2 if frame.payload.len() != 5 => FRAME_SIZE_ERROR,
        8 => match i64::from(frame.number()? & 0x7fff_ffff) {
            0 => PROTOCOL_ERROR,
            increment if stream.window + increment > 0x7fff_ffff => FLOW_CONTROL_ERROR,
            _ => return None,
        },
        _ => return None,
    };
    Some((frame.stream, reason))
}
