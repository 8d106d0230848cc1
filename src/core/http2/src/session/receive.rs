//! What comes from the caller.

use std::rc::Rc;

use super::super::frame::{
    FrameHead, HEAD_LEN, MAX_FRAME, MAX_WINDOW, PREFACE, flag, kind, number, push_head, push_number, setting,
    without_padding,
};
use super::super::head::{BadHead, HeadBuilder};
use super::super::stream::Stream;
use super::{ALIVE, Block, ConnectionError, GOODBYE, Leaving, Phase, Reason, STREAM_WINDOW, Session};
use http::{HeaderMap, StatusCode};

/// Bytes of one header block as it is sent.
const MAX_BLOCK: usize = 128 << 10;

type Received = Result<(), ConnectionError>;

fn broken<T>(reason: Reason, what: &'static str) -> Result<T, ConnectionError> {
    Err(ConnectionError { reason, what })
}

fn protocol<T>(what: &'static str) -> Result<T, ConnectionError> {
    broken(Reason::PROTOCOL_ERROR, what)
}

fn size<T>(what: &'static str) -> Result<T, ConnectionError> {
    broken(Reason::FRAME_SIZE_ERROR, what)
}

impl Session {
    /// Takes all whole frames of `input`, and says how many bytes they are. The rest must come again, with more.
    ///
    /// Errors: the connection is broken; [`abort`](Self::abort) it.
    pub fn receive(&mut self, input: &[u8]) -> Result<usize, ConnectionError> {
        let mut rest = input;
        if let Phase::Preface(seen) = self.phase {
            let expected = PREFACE.get(seen..).unwrap_or_default();
            let count = expected.len().min(rest.len());
            if rest.get(..count) != expected.get(..count) {
                return protocol("this is not HTTP/2");
            }
            rest = rest.get(count..).unwrap_or_default();
            self.phase = if count == expected.len() { Phase::Settings } else { Phase::Preface(seen + count) };
        }
        while let Some(head) = FrameHead::read(rest) {
            if head.length > MAX_FRAME {
                return size("a frame is larger than agreed");
            }
            let Some((frame, after)) = rest.split_at_checked(HEAD_LEN + head.length) else { break };
            self.frame(head, frame.get(HEAD_LEN..).unwrap_or_default())?;
            rest = after;
        }
        Ok(input.len() - rest.len())
    }

    fn frame(&mut self, head: FrameHead, payload: &[u8]) -> Received {
        if self.phase != Phase::Open {
            if head.kind != kind::SETTINGS || head.has(flag::ACK) {
                return protocol("the first frame must be settings");
            }
            self.phase = Phase::Open;
        }
        if self.block.is_some() && head.kind != kind::CONTINUATION {
            return protocol("a header block is interrupted");
        }
        match head.kind {
            kind::DATA => self.data(head, payload),
            kind::HEADERS => self.headers(head, payload),
            kind::PRIORITY if head.stream == 0 => protocol("priority of no stream"),
            kind::PRIORITY if payload.len() != 5 => self.stream_error(head.stream, Reason::FRAME_SIZE_ERROR),
            kind::RST_STREAM => self.rst_stream(head, payload),
            kind::SETTINGS => self.settings(head, payload),
            kind::PUSH_PROMISE => protocol("callers do not push"),
            kind::PING => self.ping_frame(head, payload),
            kind::GOAWAY => self.goaway(head, payload),
            kind::WINDOW_UPDATE => self.window_update(head, payload),
            kind::CONTINUATION => self.continuation(head, payload),
            // Unknown kinds, and advice about priorities.
            _ => Ok(()),
        }
    }

    /// Ends a stream because of what the caller did on it.
    fn stream_error(&mut self, stream: u32, reason: Reason) -> Received {
        if stream > self.last_stream {
            return broken(reason, "a frame on a stream that is not begun");
        }
        self.misdeed()?;
        self.reset(stream, reason);
        Ok(())
    }

    fn data(&mut self, head: FrameHead, payload: &[u8]) -> Received {
        if head.stream == 0 || head.stream > self.last_stream {
            return protocol("data on a stream that is not begun");
        }
        let Some(data) = without_padding(head, payload) else {
            return protocol("more padding than payload");
        };
        let count = payload.len() as i64;
        self.receive_window -= count;
        if self.receive_window < 0 {
            return broken(Reason::FLOW_CONTROL_ERROR, "more data than the window of the connection");
        }
        let Some(stream) = self.streams.get_mut(&head.stream) else {
            if self.ended_early.contains(&head.stream) {
                return Ok(());
            }
            return self.stream_error(head.stream, Reason::STREAM_CLOSED);
        };
        if stream.received {
            return self.stream_error(head.stream, Reason::STREAM_CLOSED);
        }
        stream.receive_window -= count;
        if stream.receive_window < 0 {
            return self.stream_error(head.stream, Reason::FLOW_CONTROL_ERROR);
        }
        let mut taken = stream.push(data);
        if head.has(flag::END_STREAM) {
            taken = taken.and_then(|()| stream.end(None, &self.credit, head.stream));
        } else if data.len() < payload.len() {
            // Nobody reads padding.
            let padding = payload.len() - data.len();
            stream.receive_window += padding as i64;
            push_number(&mut self.output, kind::WINDOW_UPDATE, head.stream, padding as u32);
        }
        taken.or_else(|reason| self.stream_error(head.stream, reason))
    }

    fn headers(&mut self, head: FrameHead, payload: &[u8]) -> Received {
        if head.stream.is_multiple_of(2) {
            return protocol("callers begin streams with odd numbers");
        }
        let Some(mut block) = without_padding(head, payload) else {
            return protocol("more padding than payload");
        };
        if head.has(flag::PRIORITY) {
            let Some(rest) = block.get(5..) else { return size("headers without their priority") };
            block = rest;
        }
        let end_stream = head.has(flag::END_STREAM);
        if head.has(flag::END_HEADERS) {
            return self.block(head.stream, end_stream, block);
        }
        self.block = Some(Block { stream: head.stream, end_stream, bytes: block.to_vec() });
        Ok(())
    }

    fn continuation(&mut self, head: FrameHead, payload: &[u8]) -> Received {
        let Some(block) = self.block.as_mut().filter(|block| block.stream == head.stream) else {
            return protocol("a continuation of nothing");
        };
        // An empty one costs the caller little and this side much.
        if block.bytes.len() + payload.len() > MAX_BLOCK || payload.is_empty() && !head.has(flag::END_HEADERS)
        {
            return broken(Reason::ENHANCE_YOUR_CALM, "a header block without end");
        }
        block.bytes.extend_from_slice(payload);
        if head.has(flag::END_HEADERS)
            && let Some(Block { stream, end_stream, bytes }) = self.block.take()
        {
            return self.block(stream, end_stream, &bytes);
        }
        Ok(())
    }

    /// Takes a whole header block.
    fn block(&mut self, id: u32, end_stream: bool, block: &[u8]) -> Received {
        if id <= self.last_stream {
            return self.trailers(id, end_stream, block);
        }
        self.last_stream = id;
        let changes = self.decoder.changes();
        let head = match self.heads.find(block, changes) {
            Some(head) => Rc::clone(head),
            None => {
                let head = match self.decode(block)?.request() {
                    Ok(head) => Rc::new(head),
                    Err(problem) => return self.bad_head(id, end_stream, problem),
                };
                if self.decoder.changes() == changes {
                    self.heads.keep(block, changes, &head);
                }
                head
            }
        };
        if self.leaving == Leaving::Final {
            // The caller was told.
            self.reset(id, Reason::REFUSED_STREAM);
            return Ok(());
        }
        if self.streams.len() >= self.limits.max_streams as usize {
            return self.stream_error(id, Reason::REFUSED_STREAM);
        }
        let mut stream = Stream::new(head, STREAM_WINDOW, self.peer.initial_window);
        if end_stream && let Err(reason) = stream.end(None, &self.credit, id) {
            return self.stream_error(id, reason);
        }
        self.streams.insert(id, stream);
        self.begun.push_back(id);
        Ok(())
    }

    fn decode(&mut self, block: &[u8]) -> Result<HeadBuilder, ConnectionError> {
        let mut builder = HeadBuilder::new(self.limits.max_header_bytes as usize);
        match self.decoder.decode(block, |field| builder.add(field)) {
            Ok(()) => Ok(builder),
            Err(_) => broken(Reason::COMPRESSION_ERROR, "a header block that does not decode"),
        }
    }

    fn bad_head(&mut self, id: u32, end_stream: bool, problem: BadHead) -> Received {
        if problem == BadHead::Malformed {
            return self.stream_error(id, Reason::PROTOCOL_ERROR);
        }
        self.misdeed()?;
        let status = StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE;
        self.push_block(id, true, |encoder, out| encoder.headers(status, &HeaderMap::new(), out));
        if !end_stream {
            self.reset(id, Reason::NO_ERROR);
        }
        Ok(())
    }

    fn trailers(&mut self, id: u32, end_stream: bool, block: &[u8]) -> Received {
        // Whatever becomes of it, the block changes what is remembered.
        let trailers = self.decode(block)?.trailers();
        let Some(stream) = self.streams.get_mut(&id) else {
            if self.ended_early.contains(&id) {
                return Ok(());
            }
            return broken(Reason::STREAM_CLOSED, "headers on a stream that is over");
        };
        if stream.received {
            return self.stream_error(id, Reason::STREAM_CLOSED);
        }
        let taken = match trailers {
            Ok(trailers) if end_stream => stream.end(Some(trailers), &self.credit, id),
            _ => Err(Reason::PROTOCOL_ERROR),
        };
        taken.or_else(|reason| self.stream_error(id, reason))
    }

    fn rst_stream(&mut self, head: FrameHead, payload: &[u8]) -> Received {
        let Some(reason) = number(payload) else { return size("a reset of a strange size") };
        if head.stream == 0 || head.stream > self.last_stream {
            return protocol("a reset of a stream that is not begun");
        }
        if let Some(stream) = self.streams.remove(&head.stream) {
            stream.break_off(Reason(reason));
            self.misdeed()?;
        }
        Ok(())
    }

    fn settings(&mut self, head: FrameHead, payload: &[u8]) -> Received {
        if head.stream != 0 {
            return protocol("settings of a stream");
        }
        if head.has(flag::ACK) {
            return if payload.is_empty() { Ok(()) } else { size("an acknowledgement with settings") };
        }
        let (settings, rest) = payload.as_chunks::<6>();
        if !rest.is_empty() {
            return size("half a setting");
        }
        for [n1, n2, value @ ..] in settings {
            self.setting(u16::from_be_bytes([*n1, *n2]), u32::from_be_bytes(*value))?;
        }
        push_head(&mut self.output, 0, kind::SETTINGS, flag::ACK, 0);
        Ok(())
    }

    fn setting(&mut self, name: u16, value: u32) -> Received {
        match name {
            setting::HEADER_TABLE_SIZE => self.encoder.set_table_size(value),
            setting::ENABLE_PUSH if value > 1 => return protocol("push is neither on nor off"),
            setting::INITIAL_WINDOW_SIZE => {
                let change = i64::from(value) - self.peer.initial_window;
                self.peer.initial_window = i64::from(value);
                let mut largest = i64::from(value);
                for stream in self.streams.values_mut() {
                    stream.send_window += change;
                    largest = largest.max(stream.send_window);
                }
                if largest > MAX_WINDOW {
                    return broken(Reason::FLOW_CONTROL_ERROR, "a window that is too large");
                }
            }
            setting::MAX_FRAME_SIZE => match value as usize {
                max @ MAX_FRAME..0x100_0000 => self.peer.max_frame = max,
                _ => return protocol("frames of a forbidden size"),
            },
            _ => {}
        }
        Ok(())
    }

    fn ping_frame(&mut self, head: FrameHead, payload: &[u8]) -> Received {
        if head.stream != 0 {
            return protocol("a ping on a stream");
        }
        let Ok(payload) = <[u8; 8]>::try_from(payload) else { return size("a ping of a strange size") };
        if !head.has(flag::ACK) {
            push_head(&mut self.output, payload.len(), kind::PING, flag::ACK, 0);
            self.output.extend_from_slice(&payload);
        } else if payload == ALIVE {
            self.answered_ping = true;
        } else if payload == GOODBYE {
            self.leave();
        }
        Ok(())
    }

    fn goaway(&mut self, head: FrameHead, payload: &[u8]) -> Received {
        if head.stream != 0 {
            return protocol("a goodbye on a stream");
        }
        if payload.len() < 8 {
            return size("a goodbye of a strange size");
        }
        self.peer_leaves = true;
        Ok(())
    }

    fn window_update(&mut self, head: FrameHead, payload: &[u8]) -> Received {
        let Some(value) = number(payload) else { return size("a window update of a strange size") };
        let increment = i64::from(value & 0x7fff_ffff);
        if head.stream == 0 {
            if increment == 0 {
                return protocol("a window update of nothing");
            }
            self.send_window += increment;
            if self.send_window > MAX_WINDOW {
                return broken(Reason::FLOW_CONTROL_ERROR, "a window that is too large");
            }
            return Ok(());
        }
        if head.stream > self.last_stream {
            return protocol("a window of a stream that is not begun");
        }
        let Some(stream) = self.streams.get_mut(&head.stream) else { return Ok(()) };
        stream.send_window += increment;
        if increment == 0 {
            return self.stream_error(head.stream, Reason::PROTOCOL_ERROR);
        }
        if stream.send_window > MAX_WINDOW {
            return self.stream_error(head.stream, Reason::FLOW_CONTROL_ERROR);
        }
        Ok(())
    }
}
