//! What goes to the caller.

use bytes::Bytes;
use http::{HeaderMap, StatusCode};

use super::super::frame::{HEAD_LEN, Reason, flag, kind, push_head};
use super::super::hpack::Encoder;
use super::super::stream::Outgoing;
use super::Session;

impl Session {
    /// Sends the whole [fixed response](super::super::FixedResponse) with this body. A stream that has ended is left alone, here and below.
    pub fn answer_fixed(&mut self, id: u32, message: Bytes) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        let count = message.len() as i64;
        if count > stream.send_window.min(self.send_window) || message.len() > self.peer.max_frame {
            self.push_block(id, false, Encoder::fixed_head);
            self.queue(id, Outgoing::Data(message));
            self.queue(id, Outgoing::FixedTrailer);
            return;
        }
        stream.send_window -= count;
        self.send_window -= count;
        self.output.reserve(message.len() + 96);
        self.push_block(id, false, Encoder::fixed_head);
        push_head(&mut self.output, message.len(), kind::DATA, 0, id);
        self.output.extend_from_slice(&message);
        self.push_block(id, true, Encoder::fixed_trailer);
        self.ended(id);
    }

    /// Sends the head of an answer; `end` says that there is nothing else.
    pub fn send_head(&mut self, id: u32, status: StatusCode, headers: &HeaderMap, end: bool) {
        if !self.streams.contains_key(&id) {
            return;
        }
        self.push_block(id, end, |encoder, out| encoder.headers(status, headers, out));
        if end {
            self.ended(id);
        }
    }

    /// Sends a piece of an answer as soon as there is room; [`is_drained`](Self::is_drained) tells when it has left.
    pub fn send_data(&mut self, id: u32, data: Bytes) {
        if !data.is_empty() {
            self.queue(id, Outgoing::Data(data));
        }
    }

    /// Ends an answer.
    pub fn send_end(&mut self, id: u32, trailers: Option<HeaderMap>) {
        self.queue(id, trailers.map_or(Outgoing::End, Outgoing::Trailers));
    }

    /// Breaks an answer off.
    pub fn send_reset(&mut self, id: u32, reason: Reason) {
        if self.streams.contains_key(&id) {
            self.reset(id, reason);
        }
    }

    fn queue(&mut self, id: u32, outgoing: Outgoing) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        let waits_already = !stream.outgoing.is_empty();
        stream.outgoing.push_back(outgoing);
        if !waits_already && !self.send_waiting(id) {
            self.blocked.push_back(id);
        }
    }

    /// Sends what waited, as far as the windows allow and as long as the output is not full; says whether that was anything.
    pub fn send_blocked(&mut self) -> bool {
        let before = self.output.len();
        for _ in 0..self.blocked.len() {
            let Some(id) = self.blocked.pop_front() else { break };
            if !self.send_waiting(id) {
                self.blocked.push_back(id);
            }
        }
        self.output.len() > before
    }

    /// Sends what waits on one stream; false if something is left.
    fn send_waiting(&mut self, id: u32) -> bool {
        loop {
            let is_congested = self.is_congested();
            let Some(stream) = self.streams.get_mut(&id) else { return true };
            match stream.outgoing.front_mut() {
                None => return true,
                Some(_) if is_congested => return false,
                Some(Outgoing::Data(data)) => {
                    let window = stream.send_window.min(self.send_window).max(0);
                    let count = data.len().min(self.peer.max_frame).min(usize::try_from(window).unwrap_or(0));
                    if count == 0 {
                        return false;
                    }
                    let piece = data.split_to(count);
                    let is_all = data.is_empty();
                    stream.send_window -= count as i64;
                    self.send_window -= count as i64;
                    push_head(&mut self.output, count, kind::DATA, 0, id);
                    self.output.extend_from_slice(&piece);
                    if is_all {
                        stream.outgoing.pop_front();
                    }
                }
                Some(_) => {
                    match stream.outgoing.pop_front() {
                        Some(Outgoing::Trailers(trailers)) => {
                            self.push_block(id, true, |encoder, out| encoder.trailers(&trailers, out));
                        }
                        Some(Outgoing::FixedTrailer) => self.push_block(id, true, Encoder::fixed_trailer),
                        _ => push_head(&mut self.output, 0, kind::DATA, flag::END_STREAM, id),
                    }
                    self.ended(id);
                    return true;
                }
            }
        }
    }

    /// This side has said everything.
    fn ended(&mut self, id: u32) {
        self.misdeeds = self.misdeeds.saturating_sub(1);
        if self.streams.get(&id).is_some_and(|stream| stream.received) {
            self.streams.remove(&id);
        } else {
            // Nobody will read the rest of the request.
            self.reset(id, Reason::NO_ERROR);
        }
    }

    /// Appends a header block in as many frames as it needs.
    pub(super) fn push_block(
        &mut self,
        id: u32,
        end_stream: bool,
        encode: impl FnOnce(&mut Encoder, &mut Vec<u8>),
    ) {
        let end_stream = if end_stream { flag::END_STREAM } else { 0 };
        let at = self.output.len();
        push_head(&mut self.output, 0, kind::HEADERS, end_stream | flag::END_HEADERS, id);
        encode(&mut self.encoder, &mut self.output);
        let length = self.output.len() - at - HEAD_LEN;
        if length <= self.peer.max_frame {
            let [_, bytes @ ..] = u32::try_from(length).unwrap_or(0).to_be_bytes();
            if let Some(head) = self.output.get_mut(at..at + 3) {
                head.copy_from_slice(&bytes);
            }
            return;
        }
        let block = self.output.split_off(at + HEAD_LEN);
        self.output.truncate(at);
        let pieces = block.len().div_ceil(self.peer.max_frame);
        for (number, piece) in block.chunks(self.peer.max_frame).enumerate() {
            let last = if number + 1 == pieces { flag::END_HEADERS } else { 0 };
            let (kind, flags) =
                if number == 0 { (kind::HEADERS, end_stream | last) } else { (kind::CONTINUATION, last) };
            push_head(&mut self.output, piece.len(), kind, flags, id);
            self.output.extend_from_slice(piece);
        }
    }
}
