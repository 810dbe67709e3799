//! A run as a trace for <https://ui.perfetto.dev>: what every unit of the device did, every
//! request in the slot of the queue it took, and how many were in flight.
//!
//! The few messages of Perfetto's protobuf format that this needs are encoded by hand; field
//! numbers are those of `trace_packet.proto`, `track_descriptor.proto` and `track_event.proto`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use sim::{Completion, Nanos, Probe, Request, Span};

/// A viewer struggles with more; what comes later is left out, and a note says so.
const SLICES_MAX: u64 = 1_000_000;

const SLICE_BEGIN: u64 = 1;
const SLICE_END: u64 = 2;
const COUNTER: u64 = 4;

/// Writes one run's part of a trace. Parts of several runs may be concatenated.
pub(crate) struct Perfetto<W> {
    to: W,
    run: u64,
    start: Nanos,
    slices: u64,
    error: Option<io::Error>,
    /// The slot of each request in flight, and the slots that are free below `slots`.
    taken: BTreeMap<u64, u64>,
    free: BTreeSet<u64>,
    slots: u64,
}

impl Perfetto<BufWriter<File>> {
    /// Write to a new file; see [`Perfetto::new`].
    pub(crate) fn create(
        path: &Path,
        run: u32,
        label: &str,
        units: &[String],
        start: Nanos,
    ) -> io::Result<Self> {
        Ok(Perfetto::new(BufWriter::new(File::create(path)?), run, label, units, start))
    }
}

impl<W: Write> Perfetto<W> {
    /// Begin a run: one process track with one track per unit. Times count from `start`.
    pub(crate) fn new(to: W, run: u32, label: &str, units: &[String], start: Nanos) -> Self {
        let mut trace = Perfetto {
            to,
            run: u64::from(run) + 1,
            start,
            slices: 0,
            error: None,
            taken: BTreeMap::new(),
            free: BTreeSet::new(),
            slots: 0,
        };
        let process = Message::new().int(1, trace.run).text(6, label);
        let root = Message::new().int(1, trace.track(0)).text(2, label).message(3, process);
        trace.descriptor(root);
        let in_flight = Message::new().int(1, trace.track(1)).int(5, trace.track(0));
        let counter = Message::new().text(6, "requests");
        trace.descriptor(in_flight.text(2, "requests in flight").message(8, counter));
        for (index, unit) in units.iter().enumerate() {
            let track = Message::new().int(1, trace.unit_track(index as u64));
            trace.descriptor(track.int(5, trace.track(0)).text(2, unit));
        }
        trace
    }

    /// Flush; says whether something was left out.
    pub(crate) fn finish(mut self) -> io::Result<Option<String>> {
        if let Some(error) = self.error {
            return Err(error);
        }
        self.to.flush()?;
        Ok((self.slices > SLICES_MAX)
            .then(|| format!("the Perfetto trace shows the first {SLICES_MAX} slices only")))
    }

    /// Ids of tracks: 2^32 per run; 0 the process, 1 the counter, then slots and units in turn.
    fn track(&self, number: u64) -> u64 {
        (self.run << 32) + number
    }

    fn slot_track(&self, slot: u64) -> u64 {
        self.track(2 + 2 * slot)
    }

    fn unit_track(&self, unit: u64) -> u64 {
        self.track(3 + 2 * unit)
    }

    fn packet(&mut self, packet: Message) {
        let framed = Message::new().message(1, packet.int(10, self.run));
        if self.error.is_none()
            && let Err(error) = self.to.write_all(&framed.0)
        {
            self.error = Some(error);
        }
    }

    fn descriptor(&mut self, track: Message) {
        self.packet(Message::new().message(60, track));
    }

    fn event(&mut self, at: Nanos, event: Message) {
        let time = at.since(self.start).0;
        self.packet(Message::new().int(8, time).message(11, event));
    }

    fn slice(&mut self, track: u64, name: &str, from: Nanos, to: Nanos, notes: &[(&str, u64)]) {
        self.slices += 1;
        if self.slices > SLICES_MAX {
            return;
        }
        let mut begin = Message::new().int(9, SLICE_BEGIN).int(11, track).text(23, name);
        for (key, value) in notes {
            begin = begin.message(4, Message::new().text(10, key).int(3, *value));
        }
        self.event(from, begin);
        self.event(to, Message::new().int(9, SLICE_END).int(11, track));
    }

    fn count(&mut self, at: Nanos) {
        if self.slices <= SLICES_MAX {
            let count = Message::new().int(9, COUNTER).int(11, self.track(1));
            self.event(at, count.int(30, self.taken.len() as u64));
        }
    }
}

impl<W: Write> Probe for Perfetto<W> {
    fn wants_spans(&self) -> bool {
        true
    }

    fn on_issue(&mut self, now: Nanos, request: &Request) {
        let slot = self.free.pop_first().unwrap_or_else(|| {
            let slot = self.slots;
            self.slots += 1;
            let track = Message::new().int(1, self.slot_track(slot)).int(5, self.track(0));
            self.descriptor(track.text(2, &format!("queue slot {slot}")));
            slot
        });
        self.taken.insert(request.id.0, slot);
        self.count(now);
    }

    fn on_complete(&mut self, request: &Request, issued: Nanos, completion: Completion) {
        let Some(slot) = self.taken.remove(&request.id.0) else { return };
        self.free.insert(slot);
        let notes = [
            ("id", request.id.0),
            ("lba", request.lba.0),
            ("sectors", u64::from(request.sectors)),
            ("process", u64::from(request.process)),
        ];
        self.slice(self.slot_track(slot), request.op.name(), issued, completion.at, &notes);
        self.count(completion.at);
    }

    fn on_span(&mut self, span: &Span) {
        let name = format!("{} ({})", span.what, span.cause);
        self.slice(self.unit_track(u64::from(span.unit)), &name, span.start, span.end, &[]);
    }
}

/// A protobuf message under construction.
struct Message(Vec<u8>);

impl Message {
    fn new() -> Message {
        Message(Vec::new())
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn int(mut self, field: u64, value: u64) -> Message {
        self.varint(field << 3);
        self.varint(value);
        self
    }

    fn text(self, field: u64, text: &str) -> Message {
        self.bytes(field, text.as_bytes())
    }

    fn message(self, field: u64, inner: Message) -> Message {
        self.bytes(field, &inner.0)
    }

    fn bytes(mut self, field: u64, bytes: &[u8]) -> Message {
        self.varint(field << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend(bytes);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sim::{Lba, RequestId};

    #[derive(Debug, PartialEq)]
    enum Field {
        Int(u64),
        Bytes(Vec<u8>),
    }

    fn varint(bytes: &mut &[u8]) -> u64 {
        let mut value = 0;
        for shift in (0..).step_by(7) {
            let (&byte, rest) = bytes.split_first().expect("a varint ends");
            *bytes = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                break;
            }
        }
        value
    }

    fn decode(mut bytes: &[u8]) -> Vec<(u64, Field)> {
        let mut fields = Vec::new();
        while !bytes.is_empty() {
            let key = varint(&mut bytes);
            let field = match key & 7 {
                0 => Field::Int(varint(&mut bytes)),
                2 => {
                    let length = varint(&mut bytes) as usize;
                    let (value, rest) = bytes.split_at(length);
                    bytes = rest;
                    Field::Bytes(value.to_vec())
                }
                wire => panic!("wire type {wire}"),
            };
            fields.push((key >> 3, field));
        }
        fields
    }

    fn inner(fields: &[(u64, Field)], number: u64) -> Option<Vec<(u64, Field)>> {
        fields.iter().find_map(|(n, field)| match field {
            Field::Bytes(bytes) if *n == number => Some(decode(bytes)),
            _ => None,
        })
    }

    fn int(fields: &[(u64, Field)], number: u64) -> Option<u64> {
        fields.iter().find_map(|(n, field)| match field {
            Field::Int(value) if *n == number => Some(*value),
            _ => None,
        })
    }

    #[test]
    fn slices_begin_and_end_on_described_tracks() {
        let mut bytes = Vec::new();
        let mut trace = Perfetto::new(&mut bytes, 0, "demo", &["die0".to_string()], Nanos(1_000));
        let request = Request { id: RequestId(5), ..Request::read(Lba(8), 16) };
        trace.on_issue(Nanos(1_000), &request);
        let (start, end) = (Nanos(1_100), Nanos(1_200));
        trace.on_span(&Span { unit: 0, what: "read", cause: "host", start, end });
        trace.on_complete(&request, Nanos(1_000), Completion { id: request.id, at: Nanos(1_300) });
        assert_eq!(trace.finish().unwrap(), None);

        let packets: Vec<_> = decode(&bytes)
            .into_iter()
            .map(|(number, field)| match field {
                Field::Bytes(packet) if number == 1 => decode(&packet),
                other => panic!("not a packet: {number} {other:?}"),
            })
            .collect();
        let tracks: Vec<_> = packets.iter().filter_map(|p| int(&inner(p, 60)?, 1)).collect();
        let events: Vec<_> = packets
            .iter()
            .filter_map(|p| {
                let event = inner(p, 11)?;
                Some((int(p, 8)?, int(&event, 9)?, int(&event, 11)?))
            })
            .collect();
        assert_eq!(tracks.len(), 4); // the process, the counter, die0, one queue slot
        assert!(events.iter().all(|(_, _, track)| tracks.contains(track)));
        let kinds: Vec<_> = events.iter().map(|&(at, kind, _)| (at, kind)).collect();
        let expected = [(0, 4), (100, 1), (200, 2), (0, 1), (300, 2), (300, 4)];
        assert_eq!(kinds, expected);
        assert!(packets.iter().all(|packet| int(packet, 10) == Some(1)));
    }
}
