//! Receives frames from the client.

use std::rc::Rc;

use super::super::frame::{
    FRAME_HEADER_LEN, FrameHeader, MAX_FRAME, MAX_WINDOW, PREFACE, flag, frame_type, number,
    push_frame_header, push_number, setting, without_padding,
};
use super::super::head::{HeadBuilder, InvalidHead};
use super::super::stream::Stream;
use super::{
    ConnectionError, ErrorCode, KEEP_ALIVE_PING, PartialBlock, Phase, SHUTDOWN_PING, STREAM_WINDOW, Session,
    Shutdown,
};
use http::{HeaderMap, StatusCode};

/// Frames that are processed at once: what a client sends in very many short ones takes as long as some calls.
const FRAMES_AT_ONCE: usize = 256;

/// Maximum size of an encoded header block.
const MAX_BLOCK: usize = 128 << 10;

type Received = Result<(), ConnectionError>;

fn connection_error<T>(code: ErrorCode, message: &'static str) -> Result<T, ConnectionError> {
    Err(ConnectionError { code, message })
}

fn protocol_error<T>(message: &'static str) -> Result<T, ConnectionError> {
    connection_error(ErrorCode::PROTOCOL_ERROR, message)
}

fn frame_size_error<T>(message: &'static str) -> Result<T, ConnectionError> {
    connection_error(ErrorCode::FRAME_SIZE_ERROR, message)
}

impl Session {
    /// Processes complete frames of `input` and returns their length in bytes. The rest must be passed again: with more input, or, if
    /// the session [has stopped](Self::has_stopped), as it is, once requests were taken from a [full](Self::is_full) one.
    ///
    /// Errors: a connection error; [`abort`](Self::abort) the connection.
    pub fn receive(&mut self, input: &[u8]) -> Result<usize, ConnectionError> {
        let mut rest = input;
        if let Phase::Preface(matched) = self.phase {
            let expected = PREFACE.get(matched..).unwrap_or_default();
            let count = expected.len().min(rest.len());
            if rest.get(..count) != expected.get(..count) {
                return protocol_error("invalid connection preface");
            }
            rest = rest.get(count..).unwrap_or_default();
            self.phase =
                if count == expected.len() { Phase::Settings } else { Phase::Preface(matched + count) };
        }
        let mut frames = 0;
        while !self.is_full()
            && frames < FRAMES_AT_ONCE
            && let Some(head) = FrameHeader::read(rest)
        {
            frames += 1;
            if head.length > MAX_FRAME {
                return frame_size_error("frame exceeds SETTINGS_MAX_FRAME_SIZE");
            }
            let Some((frame, after)) = rest.split_at_checked(FRAME_HEADER_LEN + head.length) else { break };
            self.frame(head, frame.get(FRAME_HEADER_LEN..).unwrap_or_default())?;
            rest = after;
        }
        self.has_stopped = self.is_full() || frames == FRAMES_AT_ONCE;
        Ok(input.len() - rest.len())
    }

    /// Whether the last input may have complete frames that were not processed.
    pub fn has_stopped(&self) -> bool {
        self.has_stopped
    }

    fn frame(&mut self, head: FrameHeader, payload: &[u8]) -> Received {
        if self.phase != Phase::Established {
            if head.kind != frame_type::SETTINGS || head.has(flag::ACK) {
                return protocol_error("the first frame is not SETTINGS");
            }
            self.phase = Phase::Established;
        }
        if self.partial_block.is_some() && head.kind != frame_type::CONTINUATION {
            return protocol_error("expected CONTINUATION");
        }
        match head.kind {
            frame_type::DATA => self.data(head, payload),
            frame_type::HEADERS => self.headers(head, payload),
            frame_type::PRIORITY if head.stream == 0 => protocol_error("PRIORITY on stream 0"),
            frame_type::PRIORITY if payload.len() != 5 => {
                self.stream_error(head.stream, ErrorCode::FRAME_SIZE_ERROR)
            }
            frame_type::RST_STREAM => self.rst_stream(head, payload),
            frame_type::SETTINGS => self.settings(head, payload),
            frame_type::PUSH_PROMISE => protocol_error("PUSH_PROMISE from a client"),
            frame_type::PING => self.ping_frame(head, payload),
            frame_type::GOAWAY => self.goaway(head, payload),
            frame_type::WINDOW_UPDATE => self.window_update(head, payload),
            frame_type::CONTINUATION => self.continuation(head, payload),
            // PRIORITY is deprecated; unknown types are ignored.
            _ => Ok(()),
        }
    }

    /// Resets a stream because of a stream error.
    fn stream_error(&mut self, stream: u32, code: ErrorCode) -> Received {
        if stream > self.last_stream {
            return connection_error(code, "frame on an idle stream");
        }
        self.spend_violation()?;
        self.reset(stream, code);
        Ok(())
    }

    fn data(&mut self, head: FrameHeader, payload: &[u8]) -> Received {
        if head.stream == 0 || head.stream > self.last_stream {
            return protocol_error("DATA on an idle stream");
        }
        let Some(data) = without_padding(head, payload) else {
            return protocol_error("padding exceeds the payload");
        };
        let count = payload.len() as i64;
        self.receive_window -= count;
        if self.receive_window < 0 {
            return connection_error(ErrorCode::FLOW_CONTROL_ERROR, "DATA exceeds the connection window");
        }
        let Some(stream) = self.streams.get_mut(&head.stream) else {
            if self.recently_reset.contains(&head.stream) {
                return Ok(());
            }
            return self.stream_error(head.stream, ErrorCode::STREAM_CLOSED);
        };
        if stream.is_half_closed {
            return self.stream_error(head.stream, ErrorCode::STREAM_CLOSED);
        }
        stream.receive_window -= count;
        if stream.receive_window < 0 {
            return self.stream_error(head.stream, ErrorCode::FLOW_CONTROL_ERROR);
        }
        let mut taken = Ok(());
        // The last part of a body is never refused: the request is complete.
        if !head.has(flag::END_STREAM) && !data.is_empty() {
            taken = stream.hold(data.len(), &self.flow_control);
        }
        taken = taken.and_then(|()| stream.push(data));
        if head.has(flag::END_STREAM) {
            taken = taken.and_then(|()| stream.end(None, &self.flow_control, head.stream));
        } else if data.len() < payload.len() {
            // Padding is consumed at once.
            let padding = payload.len() - data.len();
            stream.receive_window += padding as i64;
            push_number(&mut self.output, frame_type::WINDOW_UPDATE, head.stream, padding as u32);
        }
        taken.or_else(|code| self.stream_error(head.stream, code))
    }

    fn headers(&mut self, head: FrameHeader, payload: &[u8]) -> Received {
        if head.stream.is_multiple_of(2) {
            return protocol_error("HEADERS with an even stream identifier");
        }
        let Some(mut block) = without_padding(head, payload) else {
            return protocol_error("padding exceeds the payload");
        };
        if head.has(flag::PRIORITY) {
            let Some(rest) = block.get(5..) else {
                return frame_size_error("HEADERS with truncated priority");
            };
            block = rest;
        }
        let end_stream = head.has(flag::END_STREAM);
        if head.has(flag::END_HEADERS) {
            return self.header_block(head.stream, end_stream, block);
        }
        self.hold_block(block.len())?;
        self.partial_block = Some(PartialBlock { stream: head.stream, end_stream, bytes: block.to_vec() });
        Ok(())
    }

    /// Counts a part of a header block until the block is complete. Errors: the limits of the connection or of its account are reached;
    /// without the block no later one can be decoded.
    fn hold_block(&self, count: usize) -> Received {
        if self.flow_control.hold(count) {
            return Ok(());
        }
        connection_error(ErrorCode::ENHANCE_YOUR_CALM, "no memory for a header block")
    }

    fn continuation(&mut self, head: FrameHeader, payload: &[u8]) -> Received {
        let Some(block) = self.partial_block.as_ref().filter(|block| block.stream == head.stream) else {
            return protocol_error("CONTINUATION without HEADERS");
        };
        // Floods of empty frames are cheap to send and costly to process.
        if block.bytes.len() + payload.len() > MAX_BLOCK || payload.is_empty() && !head.has(flag::END_HEADERS)
        {
            return connection_error(ErrorCode::ENHANCE_YOUR_CALM, "header block exceeds the limit");
        }
        self.hold_block(payload.len())?;
        let Some(mut block) = self.partial_block.take() else { return Ok(()) };
        block.bytes.extend_from_slice(payload);
        if head.has(flag::END_HEADERS) {
            let PartialBlock { stream, end_stream, bytes } = block;
            self.flow_control.release(bytes.len());
            return self.header_block(stream, end_stream, &bytes);
        }
        self.partial_block = Some(block);
        Ok(())
    }

    /// Processes a complete header block.
    fn header_block(&mut self, id: u32, end_stream: bool, block: &[u8]) -> Received {
        if id <= self.last_stream {
            return self.trailers(id, end_stream, block);
        }
        self.last_stream = id;
        let changes = self.decoder.changes();
        let (head, memory) = match self.head_cache.find(block, changes) {
            Some(head) => (Rc::clone(head), 0),
            None => {
                let head = match self.decode(block)?.request() {
                    Ok(head) => Rc::new(head),
                    Err(problem) => return self.invalid_head(id, end_stream, problem),
                };
                if self.decoder.changes() == changes {
                    self.head_cache.insert(block, changes, &head);
                }
                let memory = head.memory();
                (head, memory)
            }
        };
        if self.shutdown == Shutdown::Final {
            // After the final GOAWAY.
            self.reset(id, ErrorCode::REFUSED_STREAM);
            return Ok(());
        }
        if self.streams.len() >= self.limits.max_streams as usize {
            return self.stream_error(id, ErrorCode::REFUSED_STREAM);
        }
        let mut stream = Stream::new(head, memory, STREAM_WINDOW);
        if end_stream && let Err(code) = stream.end(None, &self.flow_control, id) {
            return self.stream_error(id, code);
        }
        self.waiting_heads += memory;
        self.streams.insert(id, stream);
        self.new_requests.push_back(id);
        Ok(())
    }

    fn decode(&mut self, block: &[u8]) -> Result<HeadBuilder, ConnectionError> {
        let mut builder = HeadBuilder::new(self.limits.max_header_bytes as usize);
        match self.decoder.decode(block, |field| builder.add(field)) {
            Ok(()) => Ok(builder),
            Err(_) => connection_error(ErrorCode::COMPRESSION_ERROR, "invalid header block"),
        }
    }

    fn invalid_head(&mut self, id: u32, end_stream: bool, problem: InvalidHead) -> Received {
        if problem == InvalidHead::Malformed {
            return self.stream_error(id, ErrorCode::PROTOCOL_ERROR);
        }
        self.spend_violation()?;
        let status = StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE;
        self.push_block(id, true, |encoder, out| encoder.headers(status, &HeaderMap::new(), out));
        if !end_stream {
            self.reset(id, ErrorCode::NO_ERROR);
        }
        Ok(())
    }

    fn trailers(&mut self, id: u32, end_stream: bool, block: &[u8]) -> Received {
        // Always decoded: the block may change the dynamic table.
        let trailers = self.decode(block)?.trailers();
        let Some(stream) = self.streams.get_mut(&id) else {
            if self.recently_reset.contains(&id) {
                return Ok(());
            }
            return connection_error(ErrorCode::STREAM_CLOSED, "HEADERS on a closed stream");
        };
        if stream.is_half_closed {
            return self.stream_error(id, ErrorCode::STREAM_CLOSED);
        }
        let taken = match trailers {
            Ok(trailers) if end_stream => stream.end(Some(trailers), &self.flow_control, id),
            _ => Err(ErrorCode::PROTOCOL_ERROR),
        };
        taken.or_else(|code| self.stream_error(id, code))
    }

    fn rst_stream(&mut self, head: FrameHeader, payload: &[u8]) -> Received {
        let Some(code) = number(payload) else {
            return frame_size_error("RST_STREAM with an invalid length");
        };
        if head.stream == 0 || head.stream > self.last_stream {
            return protocol_error("RST_STREAM on an idle stream");
        }
        if self.close(head.stream, ErrorCode(code)) {
            self.spend_violation()?;
        }
        Ok(())
    }

    fn settings(&mut self, head: FrameHeader, payload: &[u8]) -> Received {
        if head.stream != 0 {
            return protocol_error("SETTINGS on a stream");
        }
        if head.has(flag::ACK) {
            return if payload.is_empty() { Ok(()) } else { frame_size_error("SETTINGS ACK with a payload") };
        }
        let (settings, rest) = payload.as_chunks::<6>();
        if !rest.is_empty() {
            return frame_size_error("SETTINGS with an invalid length");
        }
        for [n1, n2, value @ ..] in settings {
            self.setting(u16::from_be_bytes([*n1, *n2]), u32::from_be_bytes(*value))?;
        }
        push_frame_header(&mut self.output, 0, frame_type::SETTINGS, flag::ACK, 0);
        Ok(())
    }

    fn setting(&mut self, name: u16, value: u32) -> Received {
        match name {
            setting::HEADER_TABLE_SIZE => self.encoder.set_table_size(value),
            setting::ENABLE_PUSH if value > 1 => return protocol_error("invalid SETTINGS_ENABLE_PUSH"),
            setting::INITIAL_WINDOW_SIZE => {
                let before = std::mem::replace(&mut self.peer.initial_window, i64::from(value));
                if self.peer.initial_window > before {
                    self.blocked.initial_window_grew();
                }
                if self.overflows_a_window() {
                    return connection_error(
                        ErrorCode::FLOW_CONTROL_ERROR,
                        "SETTINGS_INITIAL_WINDOW_SIZE overflows a window",
                    );
                }
            }
            setting::MAX_FRAME_SIZE => match value as usize {
                max @ MAX_FRAME..0x100_0000 => self.peer.max_frame = max,
                _ => return protocol_error("invalid SETTINGS_MAX_FRAME_SIZE"),
            },
            _ => {}
        }
        Ok(())
    }

    /// Whether the initial window makes that of an open stream exceed the maximum. Spec: RFC 9113 section 6.9.2.
    ///
    /// Cost: constant, unless the bound of the credits is out of date; then it is renewed, so that the next entries cost nothing.
    fn overflows_a_window(&mut self) -> bool {
        let room = MAX_WINDOW - self.peer.initial_window;
        if self.max_send_credit > room {
            let credits = self.streams.values().map(|stream| stream.send_credit);
            self.max_send_credit = credits.fold(0, i64::max);
        }
        self.max_send_credit > room
    }

    fn ping_frame(&mut self, head: FrameHeader, payload: &[u8]) -> Received {
        if head.stream != 0 {
            return protocol_error("PING on a stream");
        }
        let Ok(payload) = <[u8; 8]>::try_from(payload) else {
            return frame_size_error("PING with an invalid length");
        };
        if !head.has(flag::ACK) {
            push_frame_header(&mut self.output, payload.len(), frame_type::PING, flag::ACK, 0);
            self.output.extend_from_slice(&payload);
        } else if payload == KEEP_ALIVE_PING {
            self.ping_acked = true;
        } else if payload == SHUTDOWN_PING {
            self.finish_shutdown();
        }
        Ok(())
    }

    fn goaway(&mut self, head: FrameHeader, payload: &[u8]) -> Received {
        if head.stream != 0 {
            return protocol_error("GOAWAY on a stream");
        }
        if payload.len() < 8 {
            return frame_size_error("GOAWAY with an invalid length");
        }
        self.received_goaway = true;
        Ok(())
    }

    fn window_update(&mut self, head: FrameHeader, payload: &[u8]) -> Received {
        let Some(value) = number(payload) else {
            return frame_size_error("WINDOW_UPDATE with an invalid length");
        };
        let increment = i64::from(value & 0x7fff_ffff);
        if head.stream == 0 {
            if increment == 0 {
                return protocol_error("WINDOW_UPDATE of 0");
            }
            self.send_window += increment;
            if self.send_window > MAX_WINDOW {
                return connection_error(
                    ErrorCode::FLOW_CONTROL_ERROR,
                    "WINDOW_UPDATE overflows the connection window",
                );
            }
            return Ok(());
        }
        if head.stream > self.last_stream {
            return protocol_error("WINDOW_UPDATE on an idle stream");
        }
        let Some(stream) = self.streams.get_mut(&head.stream) else { return Ok(()) };
        stream.send_credit += increment;
        if increment == 0 {
            return self.stream_error(head.stream, ErrorCode::PROTOCOL_ERROR);
        }
        if self.peer.initial_window + stream.send_credit > MAX_WINDOW {
            return self.stream_error(head.stream, ErrorCode::FLOW_CONTROL_ERROR);
        }
        self.max_send_credit = self.max_send_credit.max(stream.send_credit);
        self.window_opened(head.stream);
        Ok(())
    }
}
