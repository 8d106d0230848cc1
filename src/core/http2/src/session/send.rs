//! Queues response frames. Every method ignores a stream that is already closed.

use bytes::Bytes;
use http::{HeaderMap, StatusCode};

use super::super::frame::{ErrorCode, FRAME_HEADER_LEN, flag, frame_type, push_frame_header};
use super::super::hpack::Encoder;
use super::super::stream::{Outgoing, Wait};
use super::Session;

/// Blocked streams that are tried at once: what a client makes of very many takes as long as some calls.
const TRIED_AT_ONCE: usize = 64;

impl Session {
    /// Sends a complete [fixed response](super::super::FixedResponse) with this body. In the common case, where the windows admit the
    /// body, all three frames are encoded at once.
    pub fn send_fixed_response(&mut self, id: u32, message: Bytes) {
        let is_congested = self.is_congested();
        let Some(stream) = self.streams.get_mut(&id) else { return };
        let count = message.len() as i64;
        let window = (self.peer.initial_window + stream.send_credit).min(self.send_window);
        if count > window || message.len() > self.peer.max_frame || is_congested {
            self.push_block(id, false, Encoder::fixed_header);
            self.send_data(id, message);
            self.queue(id, Outgoing::FixedTrailer);
            return;
        }
        stream.send_credit -= count;
        self.send_window -= count;
        self.output.reserve(message.len() + 96);
        self.push_block(id, false, Encoder::fixed_header);
        push_frame_header(&mut self.output, message.len(), frame_type::DATA, 0, id);
        self.output.extend_from_slice(&message);
        self.push_block(id, true, Encoder::fixed_trailer);
        self.ended(id);
    }

    /// Sends the header section of a response; `end` sets END_STREAM.
    pub fn send_headers(&mut self, id: u32, status: StatusCode, headers: &HeaderMap, end: bool) {
        if !self.streams.contains_key(&id) {
            return;
        }
        self.push_block(id, end, |encoder, out| encoder.headers(status, headers, out));
        if end {
            self.ended(id);
        }
    }

    /// Sends body data as flow control permits; [`is_drained`](Self::is_drained) reports completion.
    pub fn send_data(&mut self, id: u32, data: Bytes) {
        if !data.is_empty() {
            self.queue(id, Outgoing::Data(data));
        }
    }

    /// Ends a response, with or without trailers.
    pub fn send_end_stream(&mut self, id: u32, trailers: Option<HeaderMap>) {
        self.queue(id, trailers.map_or(Outgoing::End, Outgoing::Trailers));
    }

    /// Resets a stream.
    pub fn send_reset(&mut self, id: u32, code: ErrorCode) {
        if self.streams.contains_key(&id) {
            self.reset(id, code);
        }
    }

    /// Queues a part of a response and encodes what the windows admit. What remains counts in memory; beyond its limits the stream
    /// is reset. Reading does not pause: it is the input that opens the windows.
    fn queue(&mut self, id: u32, outgoing: Outgoing) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        let is_waiting = !stream.outgoing.is_empty();
        stream.outgoing.push_back(outgoing);
        if !is_waiting && self.send_waiting(id) {
            return;
        }
        let Some(stream) = self.streams.get_mut(&id) else { return };
        stream.has_moved |= !is_waiting;
        let count = match stream.outgoing.back() {
            Some(Outgoing::Data(data)) => data.len(),
            // Counts with its answer.
            _ if is_waiting => return,
            _ => 0,
        };
        if let Err(code) = stream.count_waiting(count, &self.flow_control) {
            self.reset(id, code);
        }
    }

    /// Encodes queued parts of some streams that can go on, as the windows and the output limit permit. Returns whether anything was encoded,
    /// or more of them are to be tried.
    pub fn send_blocked(&mut self) -> bool {
        if !self.blocked.has_next(self.send_window > 0) {
            return false;
        }
        let before = self.output.len();
        let mut tried = 0;
        while tried < TRIED_AT_ONCE
            && let Some(id) = self.blocked.next_without_window()
        {
            tried += 1;
            self.window_opened(id);
        }
        while tried < TRIED_AT_ONCE
            && !self.is_congested()
            && let Some(id) = self.blocked.next(self.send_window > 0)
        {
            tried += 1;
            if let Some(stream) = self.streams.get_mut(&id) {
                stream.wait = Wait::Nothing;
                self.send_waiting(id);
            }
        }
        let has_more = self.blocked.has_next(self.send_window > 0) && !self.is_congested();
        has_more || self.output.len() > before
    }

    /// If the answer of a stream waits for window of its own and there is some, it is one of those that can go on.
    pub(super) fn window_opened(&mut self, id: u32) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        if stream.wait == Wait::Window && self.peer.initial_window + stream.send_credit > 0 {
            self.blocked.remove(id, stream.wait);
            stream.wait = self.blocked.for_connection(id);
        }
    }

    /// Encodes the queued parts of a stream; false if some remain, which then wait. INVARIANT: it is not one of those that wait.
    fn send_waiting(&mut self, id: u32) -> bool {
        loop {
            let is_congested = self.is_congested();
            let Some(stream) = self.streams.get_mut(&id) else { return true };
            match stream.outgoing.front_mut() {
                None => {
                    stream.all_sent(&self.flow_control);
                    if std::mem::take(&mut stream.is_watched) {
                        self.drained.push_back(id);
                    }
                    return true;
                }
                Some(_) if is_congested => {
                    stream.wait = self.blocked.for_output(id);
                    return false;
                }
                Some(Outgoing::Data(data)) => {
                    let own = self.peer.initial_window + stream.send_credit;
                    let window = own.min(self.send_window).max(0);
                    let count = data.len().min(self.peer.max_frame).min(usize::try_from(window).unwrap_or(0));
                    if count == 0 {
                        stream.wait = match own {
                            1.. => self.blocked.for_connection(id),
                            _ => self.blocked.for_window(id),
                        };
                        return false;
                    }
                    let piece = data.split_to(count);
                    let is_last = data.is_empty();
                    stream.send_credit -= count as i64;
                    stream.sent(count, &self.flow_control);
                    self.send_window -= count as i64;
                    push_frame_header(&mut self.output, count, frame_type::DATA, 0, id);
                    self.output.extend_from_slice(&piece);
                    if is_last {
                        stream.outgoing.pop_front();
                    }
                }
                Some(_) => {
                    match stream.outgoing.pop_front() {
                        Some(Outgoing::Trailers(trailers)) => {
                            self.push_block(id, true, |encoder, out| encoder.trailers(&trailers, out));
                        }
                        Some(Outgoing::FixedTrailer) => self.push_block(id, true, Encoder::fixed_trailer),
                        _ => push_frame_header(&mut self.output, 0, frame_type::DATA, flag::END_STREAM, id),
                    }
                    self.ended(id);
                    return true;
                }
            }
        }
    }

    /// END_STREAM was sent: closes the stream and refills the protocol-violation budget.
    fn ended(&mut self, id: u32) {
        self.violations = self.violations.saturating_sub(1);
        if self.streams.get(&id).is_some_and(|stream| stream.is_half_closed) {
            self.forget(id);
        } else {
            // The rest of the request is not needed. Spec: RFC 9113 section 8.1.
            self.reset(id, ErrorCode::NO_ERROR);
        }
    }

    /// Appends a header block as HEADERS and CONTINUATION frames.
    pub(super) fn push_block(
        &mut self,
        id: u32,
        end_stream: bool,
        encode: impl FnOnce(&mut Encoder, &mut Vec<u8>),
    ) {
        let end_stream = if end_stream { flag::END_STREAM } else { 0 };
        let at = self.output.len();
        push_frame_header(&mut self.output, 0, frame_type::HEADERS, end_stream | flag::END_HEADERS, id);
        encode(&mut self.encoder, &mut self.output);
        let length = self.output.len() - at - FRAME_HEADER_LEN;
        if length <= self.peer.max_frame {
            let [_, bytes @ ..] = u32::try_from(length).unwrap_or(0).to_be_bytes();
            if let Some(head) = self.output.get_mut(at..at + 3) {
                head.copy_from_slice(&bytes);
            }
            return;
        }
        let block = self.output.split_off(at + FRAME_HEADER_LEN);
        self.output.truncate(at);
        let pieces = block.len().div_ceil(self.peer.max_frame);
        for (number, piece) in block.chunks(self.peer.max_frame).enumerate() {
            let last = if number + 1 == pieces { flag::END_HEADERS } else { 0 };
            let (kind, flags) = if number == 0 {
                (frame_type::HEADERS, end_stream | last)
            } else {
                (frame_type::CONTINUATION, last)
            };
            push_frame_header(&mut self.output, piece.len(), kind, flags, id);
            self.output.extend_from_slice(piece);
        }
    }
}
