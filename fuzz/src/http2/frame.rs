//! Frames of the client.

#[derive(Debug)]
pub(super) struct Frame {
    pub(super) kind: u8,
    pub(super) flags: u8,
    pub(super) stream: u32,
    pub(super) payload: Vec<u8>,
}

impl Frame {
    pub(super) fn new(kind: u8, flags: u8, stream: u32, payload: Vec<u8>) -> Self {
        Self { kind, flags, stream: stream & 0x7fff_ffff, payload }
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        let length = u32::try_from(self.payload.len()).expect("frames are small").to_be_bytes();
        let mut out = length[1..].to_vec();
        out.extend([self.kind, self.flags]);
        out.extend(self.stream.to_be_bytes());
        out.extend_from_slice(&self.payload);
        out
    }

    /// The payload as one number.
    pub(super) fn number(&self) -> Option<u32> {
        Some(u32::from_be_bytes(self.payload.as_slice().try_into().ok()?))
    }

    pub(super) fn is_padded_too_much(&self) -> bool {
        self.flags & 8 != 0 && self.payload.first().is_none_or(|pad| usize::from(*pad) >= self.payload.len())
    }
}

/// The settings in the payload of a SETTINGS frame.
pub(super) fn settings(payload: &[u8]) -> impl Iterator<Item = (u16, u32)> {
    payload.chunks_exact(6).map(|setting| {
        let (name, value) = setting.split_at(2);
        let byte = |number: u32, byte: &u8| number << 8 | u32::from(*byte);
        (name.iter().fold(0, |number, byte| number << 8 | u16::from(*byte)), value.iter().fold(0, byte))
    })
}
