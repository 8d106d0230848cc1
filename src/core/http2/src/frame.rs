//! Frames. Spec: RFC 9113 sections 4, 6 and 7.

/// Bytes of the head of every frame.
pub(super) const HEAD_LEN: usize = 9;
/// The largest payload that either side accepts unless it says otherwise; this side never does.
pub(super) const MAX_FRAME: usize = 16_384;
/// The largest window.
pub(super) const MAX_WINDOW: i64 = (1 << 31) - 1;
/// The window of a stream and of a connection until somebody says otherwise.
pub(super) const DEFAULT_WINDOW: i64 = 65_535;

/// What a caller says before its first frame.
pub(super) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Kinds of frames.
pub(super) mod kind {
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

/// Flags of frames.
pub(super) mod flag {
    pub(in super::super) const ACK: u8 = 1;
    pub(in super::super) const END_STREAM: u8 = 1;
    pub(in super::super) const END_HEADERS: u8 = 4;
    pub(in super::super) const PADDED: u8 = 8;
    pub(in super::super) const PRIORITY: u8 = 0x20;
}

/// Names of settings.
pub(super) mod setting {
    pub(in super::super) const HEADER_TABLE_SIZE: u16 = 1;
    pub(in super::super) const ENABLE_PUSH: u16 = 2;
    pub(in super::super) const MAX_CONCURRENT_STREAMS: u16 = 3;
    pub(in super::super) const INITIAL_WINDOW_SIZE: u16 = 4;
    pub(in super::super) const MAX_FRAME_SIZE: u16 = 5;
    pub(in super::super) const MAX_HEADER_LIST_SIZE: u16 = 6;
}

/// Why a stream or a connection ends: the error codes of RFC 9113 section 7.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Reason(pub u32);

impl Reason {
    /// All is well.
    pub const NO_ERROR: Reason = Reason(0);
    /// The other side does what the protocol forbids.
    pub const PROTOCOL_ERROR: Reason = Reason(1);
    /// Something broke on this side.
    pub const INTERNAL_ERROR: Reason = Reason(2);
    /// More was sent than there was room for.
    pub const FLOW_CONTROL_ERROR: Reason = Reason(3);
    /// A frame for a stream that is over.
    pub const STREAM_CLOSED: Reason = Reason(5);
    /// A frame of a size that it must not have.
    pub const FRAME_SIZE_ERROR: Reason = Reason(6);
    /// The stream was not begun.
    pub const REFUSED_STREAM: Reason = Reason(7);
    /// The stream is not wanted any more.
    pub const CANCEL: Reason = Reason(8);
    /// A header block that does not decode.
    pub const COMPRESSION_ERROR: Reason = Reason(9);
    /// The other side overdoes it.
    pub const ENHANCE_YOUR_CALM: Reason = Reason(11);
}

impl std::fmt::Display for Reason {
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
            _ => "unknown reason",
        })
    }
}

/// The head of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FrameHead {
    pub(super) length: usize,
    pub(super) kind: u8,
    pub(super) flags: u8,
    pub(super) stream: u32,
}

impl FrameHead {
    /// Reads a head; `None` if it is not all there.
    pub(super) fn read(input: &[u8]) -> Option<FrameHead> {
        let [a, b, c, kind, flags, s1, s2, s3, s4, ..] = *input else { return None };
        Some(FrameHead {
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

/// Appends the head of a frame.
pub(super) fn push_head(out: &mut Vec<u8>, length: usize, kind: u8, flags: u8, stream: u32) {
    // INVARIANT: nobody makes frames of 16 MiB.
    let [_, a, b, c] = u32::try_from(length).unwrap_or(0).to_be_bytes();
    let [s1, s2, s3, s4] = stream.to_be_bytes();
    out.extend_from_slice(&[a, b, c, kind, flags, s1, s2, s3, s4]);
}

/// Appends a frame of one number.
pub(super) fn push_number(out: &mut Vec<u8>, kind: u8, stream: u32, number: u32) {
    push_head(out, 4, kind, 0, stream);
    out.extend_from_slice(&number.to_be_bytes());
}

/// The payload of a DATA or HEADERS frame without its padding; `None` if there is more padding than payload.
pub(super) fn without_padding(head: FrameHead, payload: &[u8]) -> Option<&[u8]> {
    if !head.has(flag::PADDED) {
        return Some(payload);
    }
    let (padding, rest) = payload.split_first()?;
    rest.len().checked_sub(usize::from(*padding)).and_then(|end| rest.get(..end))
}

/// A big-endian number of four bytes, if that is what it is.
pub(super) fn number(payload: &[u8]) -> Option<u32> {
    payload.try_into().ok().map(u32::from_be_bytes)
}
