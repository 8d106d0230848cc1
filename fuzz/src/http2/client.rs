//! The client side of the connection: streams, windows, and the frames that the server may send.

use std::collections::BTreeMap;

use fluke_hpack::Decoder;

use super::frame::{Frame, settings};

const HEAD_LEN: usize = 9;

pub(super) struct Client {
    pub(super) last_stream: u32,
    /// The stream with an incomplete header block, and whether the block ends the stream.
    pub(super) block: Option<u32>,
    block_ends: bool,
    /// Send window of the server on the connection.
    pub(super) window: i64,
    pub(super) initial_window: i64,
    max_frame: usize,
    pub(super) streams: BTreeMap<u32, ClientStream>,
    decoder: Decoder<'static>,
}

pub(super) struct ClientStream {
    pub(super) client_ended: bool,
    server_ended: bool,
    reset: bool,
    /// Whether the server reset it; no frame may follow.
    reset_by_server: bool,
    answered: bool,
    pub(super) window: i64,
}

impl ClientStream {
    /// Whether both sides have applied it.
    pub(super) fn is_open(&self) -> bool {
        !(self.reset || self.client_ended && self.server_ended)
    }
}

impl Client {
    pub(super) fn new() -> Self {
        Self {
            last_stream: 0,
            block: None,
            block_ends: false,
            window: 65_535,
            initial_window: 65_535,
            max_frame: 16_384,
            streams: BTreeMap::new(),
            decoder: Decoder::new(),
        }
    }

    pub(super) fn next_stream(&self) -> u32 {
        if self.last_stream == 0 { 1 } else { self.last_stream.saturating_add(2).min(0x7fff_fff1) }
    }

    pub(super) fn has_opened(&self, stream: u32) -> bool {
        self.streams.contains_key(&stream)
    }

    /// The server accepted this frame.
    pub(super) fn sent(&mut self, frame: &Frame) {
        match frame.kind {
            0 if frame.flags & 1 != 0 => self.end(frame.stream),
            1 => {
                self.block = Some(frame.stream);
                self.block_ends = frame.flags & 1 != 0;
            }
            3 => {
                if let Some(stream) = self.streams.get_mut(&frame.stream) {
                    stream.reset = true;
                }
            }
            4 if frame.flags & 1 == 0 => {
                settings(&frame.payload).for_each(|(name, value)| self.set(name, value))
            }
            8 => {
                let increment = i64::from(frame.number().unwrap_or(0) & 0x7fff_ffff);
                if frame.stream == 0 {
                    self.window += increment;
                } else if let Some(stream) = self.streams.get_mut(&frame.stream) {
                    stream.window += increment;
                }
            }
            _ => {}
        }
        if matches!(frame.kind, 1 | 9)
            && frame.flags & 4 != 0
            && let Some(stream) = self.block.take()
        {
            self.complete(stream);
        }
    }

    /// A complete header block: a new stream, or trailers.
    fn complete(&mut self, stream: u32) {
        if stream > self.last_stream {
            self.last_stream = stream;
            let opened = ClientStream {
                client_ended: false,
                server_ended: false,
                reset: false,
                reset_by_server: false,
                answered: false,
                window: self.initial_window,
            };
            self.streams.insert(stream, opened);
        }
        if self.block_ends {
            self.end(stream);
        }
    }

    fn end(&mut self, stream: u32) {
        if let Some(stream) = self.streams.get_mut(&stream) {
            stream.client_ended = true;
        }
    }

    fn set(&mut self, name: u16, value: u32) {
        match name {
            1 => self.decoder.set_max_table_size(value.min(1 << 16) as usize),
            4 => {
                let change = i64::from(value) - self.initial_window;
                self.initial_window = i64::from(value);
                self.streams.values_mut().for_each(|stream| stream.window += change);
            }
            5 => self.max_frame = value as usize,
            _ => {}
        }
    }

    /// Splits the output of the server into frames.
    fn frames(output: &[u8]) -> Vec<Frame> {
        let mut rest = output;
        let mut frames = Vec::new();
        while !rest.is_empty() {
            let (head, after) = rest.split_at(HEAD_LEN);
            let length = head[..3].iter().fold(0, |length, byte| length << 8 | usize::from(*byte));
            let stream = head[5..].iter().fold(0, |stream, byte| stream << 8 | u32::from(*byte));
            let (payload, after) = after.split_at(length);
            frames.push(Frame::new(head[3], head[4], stream, payload.to_vec()));
            rest = after;
        }
        frames
    }

    /// Checks the output before a connection error: the last frame is GOAWAY with the code.
    pub(super) fn takes_end(&mut self, output: &[u8], reason: u32) {
        let frames = Self::frames(output);
        let last = frames.last().expect("the connection ends without a word");
        assert_eq!((last.kind, last.stream, last.payload.len()), (7, 0, 8), "{last:?}");
        assert_eq!(last.payload[4..], reason.to_be_bytes(), "{last:?}");
    }

    /// Checks the output; returns the streams that the server reset, with codes.
    pub(super) fn takes(&mut self, output: &[u8]) -> Vec<(u32, u32)> {
        let mut resets = Vec::new();
        let mut block: Option<(Frame, Vec<u8>)> = None;
        for frame in Self::frames(output) {
            assert!(frame.payload.len() <= self.max_frame, "{frame:?}");
            if let Some((first, mut bytes)) = block.take() {
                assert_eq!((frame.kind, frame.stream), (9, first.stream), "a block is interrupted");
                bytes.extend_from_slice(&frame.payload);
                if frame.flags & 4 == 0 {
                    block = Some((first, bytes));
                } else {
                    self.headers(&first, &bytes);
                }
                continue;
            }
            match frame.kind {
                0 => self.data(&frame),
                1 if frame.flags & 4 == 0 => {
                    let bytes = frame.payload.clone();
                    block = Some((frame, bytes));
                }
                1 => self.headers(&frame, &frame.payload),
                3 => {
                    let reason = frame.number().expect("a reset has a reason");
                    let stream = self.streams.entry(frame.stream).or_insert(ClientStream {
                        client_ended: false,
                        server_ended: false,
                        reset: false,
                        reset_by_server: false,
                        answered: false,
                        window: 0,
                    });
                    stream.reset = true;
                    stream.reset_by_server = true;
                    resets.push((frame.stream, reason));
                }
                4 => assert_eq!(frame.stream, 0),
                6 => assert_eq!((frame.stream, frame.payload.len()), (0, 8)),
                7 => assert_eq!((frame.stream, frame.payload.len()), (0, 8)),
                8 => {
                    let increment = frame.number().expect("a window update has a number");
                    assert!((1..=0x7fff_ffff).contains(&increment), "{frame:?}");
                    if frame.stream != 0 {
                        self.known(&frame);
                    }
                }
                _ => panic!("servers do not send {frame:?}"),
            }
        }
        assert!(block.is_none(), "a block without end");
        resets
    }

    /// The stream of a frame that is valid on open streams only.
    fn known(&mut self, frame: &Frame) -> &mut ClientStream {
        let stream = self.streams.get_mut(&frame.stream).unwrap_or_else(|| panic!("no stream for {frame:?}"));
        assert!(!stream.reset_by_server && !stream.server_ended, "a stream is over: {frame:?}");
        stream
    }

    fn data(&mut self, frame: &Frame) {
        let length = frame.payload.len() as i64;
        let connection = self.window;
        let stream = self.known(frame);
        assert!(stream.answered, "data without a head: {}", frame.stream);
        assert!(length == 0 || length <= stream.window.min(connection), "{length} bytes without a window");
        stream.window -= length;
        stream.server_ended = frame.flags & 1 != 0;
        self.window -= length;
    }

    fn headers(&mut self, frame: &Frame, block: &[u8]) {
        let fields = self.decoder.decode(block).unwrap_or_else(|error| panic!("{block:x?}: {error:?}"));
        let stream = self.known(frame);
        let is_head = fields.iter().any(|(name, _)| name == b":status");
        assert_eq!(is_head, !stream.answered, "stream {}: {fields:?}", frame.stream);
        assert!(is_head || frame.flags & 1 != 0, "trailers end the stream");
        stream.answered = true;
        stream.server_ended = frame.flags & 1 != 0;
    }
}
