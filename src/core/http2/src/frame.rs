//! Frames. Spec: RFC 9113 sections 4, 6 and 7.

/// Length of a frame header in bytes.
pub(super) const FRAME_HEADER_LEN: usize = 9;
/// Default SETTINGS_MAX_FRAME_SIZE; the server keeps it.
pub(super) const MAX_FRAME: usize = 16_384;
/// Maximum size of a flow-control window.
pub(super) const MAX_WINDOW: i64 = (1 << 31) - 1;
/// Initial size of flow-control windows.
pub(super) const DEFAULT_WINDOW: i64 = 65_535;

/// The client connection preface.
pub(super) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Frame types.
pub(super) mod frame_type {
    pub(in super::super) const DATA: u8 = 0;
    pub(in super::super) const HEADERS: u8 = 1;
    pub(in super::super) const PRIORITY: u8 = 2;
    pub(in super::super) const RST_STREAM: u8 = 3;
    pub(in super::super) const SETTINGS: u8 = 4;
    pub(in super::super) const PUSH_PROMISE: u8 = 5;
    pub(in super::super) const PING: u8 = 6;
    pub(in super::super) const GOAWAY: u8 = 7;
    pub(in super::super) const WINDOW_UPDATE: u8 = 8;
    pub(in super::super) const CONTINUATION: u8 = 9;
}

/// Frame flags.
pub(super) mod flag {
    pub(in super::super) const ACK: u8 = 1;
    pub(in super::super) const END_STREAM: u8 = 1;
    pub(in super::super) const END_HEADERS: u8 = 4;
    pub(in super::super) const PADDED: u8 = 8;
    pub(in super::super) const PRIORITY: u8 = 0x20;
}

/// Setting identifiers.
pub(super) mod setting {
    pub(in super::super) const HEADER_TABLE_SIZE: u16 = 1;
    pub(in super::super) const ENABLE_PUSH: u16 = 2;
    pub(in super::super) const MAX_CONCURRENT_STREAMS: u16 = 3;
    pub(in super::super) const INITIAL_WINDOW_SIZE: u16 = 4;
    pub(in super::super) const MAX_FRAME_SIZE: u16 = 5;
    pub(in super::super) const MAX_HEADER_LIST_SIZE: u16 = 6;
}

/// An error code of RST_STREAM or GOAWAY. Spec: RFC 9113 section 7.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ErrorCode(pub u32);

impl ErrorCode {
    /// Not an error; graceful shutdown.
    pub(crate) const NO_ERROR: ErrorCode = ErrorCode(0);
    /// Protocol violation.
    pub(crate) const PROTOCOL_ERROR: ErrorCode = ErrorCode(1);
    /// Internal failure of the endpoint.
    pub const INTERNAL_ERROR: ErrorCode = ErrorCode(2);
    /// Flow-control violation.
    pub(crate) const FLOW_CONTROL_ERROR: ErrorCode = ErrorCode(3);
    /// Frame on a half-closed or closed stream.
    pub(crate) const STREAM_CLOSED: ErrorCode = ErrorCode(5);
    /// Frame with an invalid length.
    pub(crate) const FRAME_SIZE_ERROR: ErrorCode = ErrorCode(6);
    /// Stream refused before any processing.
    pub(crate) const REFUSED_STREAM: ErrorCode = ErrorCode(7);
    /// Header compression state cannot be maintained.
    pub(crate) const COMPRESSION_ERROR: ErrorCode = ErrorCode(9);
    /// Excessive load by the peer.
    pub(crate) const ENHANCE_YOUR_CALM: ErrorCode = ErrorCode(11);
}

impl std::fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self.0 {
            0 => "no error",
            1 => "protocol error",
            2 => "internal error",
            3 => "flow control error",
            4 => "settings timeout",
            5 => "stream closed",
            6 => "frame size error",
            7 => "stream refused",
            8 => "cancelled",
            9 => "compression error",
            10 => "connect error",
            11 => "enhance your calm",
            12 => "inadequate security",
            13 => "HTTP/1.1 required",
            _ => "unknown error code",
        })
    }
}

/// A frame header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FrameHeader {
    pub(super) length: usize,
    pub(super) kind: u8,
    pub(super) flags: u8,
    pub(super) stream: u32,
}

impl FrameHeader {
    /// Parses a header; `None` if it is incomplete.
    pub(super) fn read(input: &[u8]) -> Option<FrameHeader> {
        let [a, b, c, kind, flags, s1, s2, s3, s4, ..] = *input else { return None };
        Some(FrameHeader {
            length: u32::from_be_bytes([0, a, b, c]) as usize,
            kind,
            flags,
            stream: u32::from_be_bytes([s1, s2, s3, s4]) & 0x7fff_ffff,
        })
    }

    pub(super) fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// Appends a frame header.
pub(super) fn push_frame_header(out: &mut Vec<u8>, length: usize, kind: u8, flags: u8, stream: u32) {
    // INVARIANT: frames are smaller than 16 MiB.
    let [_, a, b, c] = u32::try_from(length).unwrap_or(0).to_be_bytes();
    let [s1, s2, s3, s4] = stream.to_be_bytes();
    out.extend_from_slice(&[a, b, c, kind, flags, s1, s2, s3, s4]);
}

/// Appends a frame with a 32-bit payload: RST_STREAM or WINDOW_UPDATE.
pub(super) fn push_number(out: &mut Vec<u8>, kind: u8, stream: u32, number: u32) {
    push_frame_header(out, 4, kind, 0, stream);
    out.extend_from_slice(&number.to_be_bytes());
}

/// The payload of a DATA or HEADERS frame without its padding; `None` if the padding exceeds the payload.
pub(super) fn without_padding(head: FrameHeader, payload: &[u8]) -> Option<&[u8]> {
    if !head.has(flag::PADDED) {
        return Some(payload);
    }
    let (padding, rest) = payload.split_first()?;
    rest.len().checked_sub(usize::from(*padding)).and_then(|end| rest.get(..end))
}

/// A payload of exactly one big-endian 32-bit number.
pub(super) fn number(payload: &[u8]) -> Option<u32> {
    payload.try_into().ok().map(u32::from_be_bytes)
}
