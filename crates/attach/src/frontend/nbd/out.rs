//! What waits to be sent to one client.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::os::fd::AsFd;

use crate::buffer_pool::BufferPool;

/// Data up to this size is copied behind its header; larger data is sent from where it is.
const COPY_MAX: usize = 16 << 10;
/// A piece takes copies up to this size; the first ones are small, so that little costs little.
const PIECE_MIN: usize = 8 << 10;
const PIECE_MAX: usize = 128 << 10;
/// Pieces sent at a time.
const SLICES: usize = 16;

#[derive(Debug, Default)]
struct Piece {
    bytes: Vec<u8>,
    /// It is full from here on.
    size: usize,
    /// More may be written behind it.
    open: bool,
}

/// Bytes in order, in few pieces.
#[derive(Debug, Default)]
pub(super) struct Out {
    pieces: VecDeque<Piece>,
    /// Bytes of the first piece that are gone.
    sent: usize,
    bytes: usize,
}

impl Out {
    /// Bytes that wait.
    pub(super) fn len(&self) -> usize {
        self.bytes
    }

    /// Let `write` append to what waits.
    pub(super) fn append<T>(
        &mut self,
        pool: &mut BufferPool,
        write: impl FnOnce(&mut Vec<u8>) -> T,
    ) -> T {
        let open = |piece: &Piece| piece.open && piece.bytes.len() < piece.size;
        if !self.pieces.back().is_some_and(open) {
            let size = match self.pieces.back() {
                Some(full) if full.open => (2 * full.size).min(PIECE_MAX),
                _ => PIECE_MIN,
            };
            let bytes = pool.take_empty(size);
            self.pieces.push_back(Piece { bytes, size, open: true });
        }
        let piece = &mut self.pieces.back_mut().expect("there is a piece").bytes;
        let before = piece.len();
        let result = write(piece);
        self.bytes += piece.len() - before;
        result
    }

    /// Append a buffer.
    pub(super) fn push(&mut self, data: Vec<u8>, pool: &mut BufferPool) {
        if data.len() <= COPY_MAX {
            self.append(pool, |out| out.extend_from_slice(&data));
            pool.put(data);
        } else {
            self.bytes += data.len();
            self.pieces.push_back(Piece { bytes: data, size: 0, open: false });
        }
    }

    /// Send what the socket takes; returns how much that was.
    pub(super) fn send(&mut self, socket: impl AsFd, pool: &mut BufferPool) -> io::Result<usize> {
        let mut total = 0;
        while self.bytes > 0 {
            let mut slices = [IoSlice::new(&[]); SLICES];
            let mut skip = self.sent;
            let mut used = 0;
            for (slice, piece) in slices.iter_mut().zip(&self.pieces) {
                *slice = IoSlice::new(&piece.bytes[skip..]);
                skip = 0;
                used += 1;
            }
            let gone = match rustix::io::writev(&socket, &slices[..used]) {
                Ok(gone) => gone,
                Err(rustix::io::Errno::AGAIN) => break,
                Err(rustix::io::Errno::INTR) => continue,
                Err(why) => return Err(why.into()),
            };
            total += gone;
            self.advance(gone, pool);
        }
        if self.bytes == 0 {
            self.clear(pool);
        }
        Ok(total)
    }

    fn advance(&mut self, mut gone: usize, pool: &mut BufferPool) {
        self.bytes -= gone;
        while gone > 0 {
            let first = self.pieces.front().map_or(0, |piece| piece.bytes.len() - self.sent);
            if gone < first {
                self.sent += gone;
                return;
            }
            gone -= first;
            self.sent = 0;
            if let Some(piece) = self.pieces.pop_front() {
                pool.put(piece.bytes);
            }
        }
    }

    /// Forget what waits.
    pub(super) fn clear(&mut self, pool: &mut BufferPool) {
        self.pieces.drain(..).for_each(|piece| pool.put(piece.bytes));
        self.sent = 0;
        self.bytes = 0;
    }
}
