//! Reads the disk descriptions published with DiskSim 4.0 (`.diskspecs`, `.model`, `.seek`) and
//! its validation traces into this model's parameters.
//!
//! Only what this model has is taken over; the table is in docs/models/device-hdd.md. Readers take
//! text, never panic on it, and name the line of what they cannot use.

use std::fmt;

use config::{Duration, Rate, Size};
use sim::{Bytes, Nanos, SECTOR_BYTES};

use crate::params::{
    CacheParams, GeometryParams, LinearZones, OverheadParams, Params, ReadAheadStop, Scheduler,
    SeekParams, WriteCacheParams, ZoneParams,
};
use crate::seek::Point;

/// A description that cannot be used: where, and why.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DisksimError {
    /// Which of the texts: "diskspecs", "model", "seek" or "trace".
    pub file: &'static str,
    /// Line, from 1.
    pub line: usize,
    /// What was expected and what was found.
    pub message: String,
}

impl fmt::Display for DisksimError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} line {}: {}", self.file, self.line, self.message)
    }
}

impl std::error::Error for DisksimError {}

/// One request of a validation trace: a closed loop of single requests on a real drive.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Measured {
    /// It was a write.
    pub write: bool,
    /// First sector.
    pub lba: u64,
    /// Length in sectors.
    pub sectors: u32,
    /// Measured time from submission to completion.
    pub service: Nanos,
    /// Time from its completion to the next request.
    pub gap: Nanos,
}

/// Read a validation trace: `R|W Hit|Miss lbn sectors service_us gap_us` per line.
///
/// # Errors
/// Names the line that has another form.
pub fn trace(text: &str) -> Result<Vec<Measured>, DisksimError> {
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    lines.map(|(index, line)| measured(line).ok_or_else(|| bad_trace(index + 1, line))).collect()
}

fn measured(line: &str) -> Option<Measured> {
    let mut fields = line.split_whitespace();
    let write = match fields.next()? {
        "R" => false,
        "W" => true,
        _ => return None,
    };
    fields.next()?;
    let lba = fields.next()?.parse().ok()?;
    let sectors = fields.next()?.parse().ok().filter(|&sectors| sectors > 0)?;
    let mut time = || {
        let us: f64 = fields.next()?.parse().ok()?;
        (0.0..1e12).contains(&us).then_some(Nanos((us * 1e3) as u64))
    };
    let (service, gap) = (time()?, time()?);
    fields.next().is_none().then_some(Measured { write, lba, sectors, service, gap })
}

fn bad_trace(line: usize, text: &str) -> DisksimError {
    let text: String = text.chars().take(60).collect();
    let message = format!("expected \"R|W Hit lbn sectors service_us gap_us\", got \"{text}\"");
    DisksimError { file: "trace", line, message }
}

/// Read a seek table: a heading, then `cylinders, milliseconds` per line.
///
/// # Errors
/// Names the line that has another form.
pub fn seek_points(text: &str) -> Result<Vec<Point>, DisksimError> {
    let mut points: Vec<Point> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with("Seek distances") {
            continue;
        }
        let point = line.split_once(',').and_then(|(distance, ms)| {
            let cylinders: u32 = distance.trim().parse().ok()?;
            let ms: f64 = ms.trim().parse().ok()?;
            let rises = points.last().map_or(0, |last| last.cylinders) < cylinders;
            (rises && (0.0..4000.0).contains(&ms))
                .then_some(Point { cylinders, time: milliseconds(ms) })
        });
        let Some(point) = point else {
            let text: String = line.chars().take(60).collect();
            let message =
                format!("expected \"cylinders, ms\" with rising cylinders, got \"{text}\"");
            return Err(DisksimError { file: "seek", line: index + 1, message });
        };
        points.push(point);
    }
    Ok(points)
}

fn milliseconds(ms: f64) -> Duration {
    Duration(Nanos((ms * 1e6).round().clamp(0.0, 1e15) as u64))
}

/// The names of the model and seek files a description refers to.
///
/// # Errors
/// When the description has another form.
pub fn model_file(specs: &str) -> Result<String, DisksimError> {
    let disk = Block::read("diskspecs", specs, "disksim_disk")?;
    let text = disk.text("Model")?;
    Ok(text.trim_start_matches("source").trim().to_owned())
}

/// The name of the seek file a model refers to.
///
/// # Errors
/// When the model has another form.
pub fn seek_file(model: &str) -> Result<String, DisksimError> {
    let disk = Block::read("model", model, "dm_disk")?;
    Ok(disk.block("Mechanical Model")?.text("Full seek curve")?.to_owned())
}

/// Parameters of the drive that these three texts describe.
///
/// # Errors
/// Names the text, the line and the key that is missing or cannot be used.
pub fn params(specs: &str, model: &str, seek: &str) -> Result<Params, DisksimError> {
    let disk = Block::read("diskspecs", specs, "disksim_disk")?;
    let model = Block::read("model", model, "dm_disk")?;
    let mechanics = model.block("Mechanical Model")?;
    let scale = disk.number("Time scale for overheads", 0.0..=1e3)?;
    let time = |key: &str| disk.number(key, 0.0..=1e3).map(|ms| milliseconds(ms * scale));
    let case = |key: &str| time(key).map(Some);
    let sector_ms = disk.number("Bulk sector transfer time", 0.0..=1e3)?;
    let rate = if sector_ms > 0.0 { SECTOR_BYTES as f64 * 1e3 / sector_ms } else { 1e12 };
    let points = seek_points(seek)?;
    Ok(Params {
        geometry: geometry(&model)?,
        rpm: mechanics.number("Rotation speed (in rpms)", 60.0..=1e5)? as u32,
        seek: SeekParams { points, ..SeekParams::default() },
        head_switch: milliseconds(mechanics.number("Head switch time", 0.0..=1e3)?),
        write_settle: milliseconds(mechanics.number("Add. write settling delay", 0.0..=1e3)?),
        interface: Rate(rate.clamp(1e3, 1e12) as u64),
        overhead: OverheadParams {
            command: time("Per-request overhead time")?,
            read_hit_after_read: case("Read hit over. after read")?,
            read_hit_after_write: case("Read hit over. after write")?,
            read_miss_after_read: case("Read miss over. after read")?,
            read_miss_after_write: case("Read miss over. after write")?,
            write_hit_after_read: case("Write hit over. after read")?,
            write_hit_after_write: case("Write hit over. after write")?,
            write_miss_after_read: case("Write miss over. after read")?,
            write_miss_after_write: case("Write miss over. after write")?,
            read_completion: time("Read completion overhead")?,
            write_completion: time("Write completion overhead")?,
        },
        queue_depth_max: disk.number("Max queue length", 1.0..=1024.0)? as u32,
        scheduler: match disk.block("Scheduler")?.number("Scheduling policy", 0.0..=100.0)? as u32 {
            1 => Scheduler::Fifo,
            _ => Scheduler::Sptf,
        },
        cache: cache(&disk)?,
        write_cache: write_cache(&disk)?,
    })
}

fn geometry(model: &Block) -> Result<GeometryParams, DisksimError> {
    let layout = model.block("Layout Model")?;
    let scheme = layout.number("Sparing scheme used", 0.0..=100.0)? as u32;
    let range = layout.number("Rangesize for sparing", 0.0..=1e6)? as u32;
    let mut zone = Vec::new();
    for block in layout.blocks("Zones")? {
        let cylinder = |key| block.number(key, 0.0..=4e6).map(|n| n as u32);
        let first = cylinder("First cylinder number")?;
        let last = cylinder("Last cylinder number")?;
        if last < first {
            return Err(block.error(format!("the last cylinder {last} lies before {first}")));
        }
        let spares = block.number("Number of spares", 0.0..=1e6)? as u64;
        let skew = |key| block.number(key, 0.0..=1e5).map(|n| Some(n.round() as u32));
        // Scheme 8 keeps the spares of a range of cylinders at the range's end; drives without
        // spares in their zones slip defects, which this model does not follow.
        let banded = scheme == 8 && spares > 0;
        zone.push(ZoneParams {
            first_cylinder: Some(first),
            cylinders: last - first + 1,
            sectors_per_track: block.number("Blocks per track", 1.0..=1e5)? as u32,
            track_skew: skew("Skew for track switch")?,
            cylinder_skew: skew("Skew for cylinder switch")?,
            reserved: block.number("Empty space at zone front", 0.0..=1e12)? as u64,
            band_cylinders: banded.then_some(range.clamp(1, last - first + 1)),
            band_spares: if banded { spares } else { 0 },
        });
    }
    Ok(GeometryParams {
        sectors: Some(model.number("Block count", 1.0..=1e15)? as u64),
        heads: model.number("Number of data surfaces", 1.0..=64.0)? as u32,
        zones: LinearZones::default(),
        zone,
    })
}

fn cache(disk: &Block) -> Result<CacheParams, DisksimError> {
    let size =
        |key| disk.number(key, 0.0..=1e6).map(|blocks| Size(Bytes(blocks as u64 * SECTOR_BYTES)));
    let flag = |key| disk.number(key, 0.0..=10.0).map(|n| n != 0.0);
    let segments = disk.number("Number of buffer segments", 0.0..=1024.0)? as u32;
    let (read_ahead_stop, reads_ahead) =
        match disk.number("Buffer continuous read", 0.0..=4.0)? as u32 {
            0 => (ReadAheadStop::Track, false),
            3 => (ReadAheadStop::Segment, true),
            _ => (ReadAheadStop::Track, true),
        };
    let read_ahead = size("Maximum read-ahead (blks)")?;
    Ok(CacheParams {
        segments: if flag("Enable caching in buffer")? { segments } else { 0 },
        segment: size("Segment size (in blks)")?,
        read_ahead: if reads_ahead { read_ahead } else { Size::default() },
        read_ahead_stop,
        read_ahead_over_requested: flag("Read-ahead over requested")?,
        read_ahead_on_hit: flag("Read-ahead on idle hit")?,
        read_before: flag("Read any free blocks")?,
        read_hits_on_written: flag("Allow read hits on write data")?,
    })
}

fn write_cache(disk: &Block) -> Result<WriteCacheParams, DisksimError> {
    let blocks = disk.number("Segment size (in blks)", 1.0..=1e6)? as u64;
    let runs = disk.number("Maximum number of write segments", 1.0..=1024.0)? as u32;
    Ok(WriteCacheParams {
        enabled: disk.number("Fast write level", 0.0..=2.0)? > 0.0,
        size: Size(Bytes(blocks * SECTOR_BYTES * u64::from(runs))),
        runs,
        ..WriteCacheParams::default()
    })
}

/// `kind { key = value, ... }`, the only structure of these files.
#[derive(Debug)]
struct Block {
    file: &'static str,
    line: usize,
    kind: String,
    entries: Vec<(String, Value)>,
}

#[derive(Debug)]
enum Value {
    Text(usize, String),
    Block(Block),
    List(Vec<Value>),
}

impl Block {
    /// The first block of a text, which must be of this kind.
    fn read(file: &'static str, text: &str, kind: &str) -> Result<Block, DisksimError> {
        let mut parser = Parser { file, rest: text, line: 1 };
        let head = parser.until(&['{']);
        let block = parser.block(head.trim().to_owned(), 0)?;
        match block.kind.split_whitespace().next() {
            Some(found) if found == kind => Ok(block),
            _ => Err(block.error(format!("expected a {kind} block, got \"{}\"", block.kind))),
        }
    }

    fn error(&self, message: String) -> DisksimError {
        DisksimError { file: self.file, line: self.line, message }
    }

    fn get(&self, key: &str) -> Result<&Value, DisksimError> {
        let entry = self.entries.iter().find(|(name, _)| name == key);
        entry.map(|(_, value)| value).ok_or_else(|| {
            self.error(format!("the block \"{}\" has no \"{key}\"; expected one", self.kind))
        })
    }

    fn text(&self, key: &str) -> Result<&str, DisksimError> {
        match self.get(key)? {
            Value::Text(_, text) => Ok(text),
            _ => Err(self.error(format!("\"{key}\" is a block; expected a value"))),
        }
    }

    fn number(&self, key: &str, range: std::ops::RangeInclusive<f64>) -> Result<f64, DisksimError> {
        let (line, text) = match self.get(key)? {
            Value::Text(line, text) => (*line, text.as_str()),
            _ => (self.line, "a block"),
        };
        text.parse().ok().filter(|number| range.contains(number)).ok_or_else(|| {
            let (low, high) = (range.start(), range.end());
            let message = format!("{key}: expected a number from {low} to {high}, got \"{text}\"");
            DisksimError { file: self.file, line, message }
        })
    }

    fn block(&self, key: &str) -> Result<&Block, DisksimError> {
        match self.get(key)? {
            Value::Block(block) => Ok(block),
            _ => Err(self.error(format!("\"{key}\" is a value; expected a block"))),
        }
    }

    fn blocks(&self, key: &str) -> Result<Vec<&Block>, DisksimError> {
        let Value::List(list) = self.get(key)? else {
            return Err(self.error(format!("\"{key}\" is no list; expected one of blocks")));
        };
        let blocks = list.iter().map(|value| match value {
            Value::Block(block) => Ok(block),
            _ => Err(self.error(format!("\"{key}\" holds a value; expected blocks only"))),
        });
        blocks.collect()
    }
}

struct Parser<'a> {
    file: &'static str,
    rest: &'a str,
    line: usize,
}

/// Deeper nesting than any of these files has.
const DEPTH_MAX: usize = 16;

impl<'a> Parser<'a> {
    fn error<T>(&self, message: &str) -> Result<T, DisksimError> {
        Err(DisksimError { file: self.file, line: self.line, message: message.into() })
    }

    /// The text before the next of these characters, comments removed; stops before it.
    fn until(&mut self, stops: &[char]) -> String {
        let mut text = String::new();
        let mut comment = false;
        for (offset, c) in self.rest.char_indices() {
            if !comment && stops.contains(&c) {
                self.rest = &self.rest[offset..];
                return text;
            }
            comment = (comment || c == '#') && c != '\n';
            self.line += usize::from(c == '\n');
            if !comment {
                text.push(c);
            }
        }
        self.rest = "";
        text
    }

    /// Take the next character if it is `c`, after white space and comments.
    fn take(&mut self, c: char) -> bool {
        loop {
            let trimmed = self.rest.trim_start();
            let skipped = &self.rest[..self.rest.len() - trimmed.len()];
            self.line += skipped.matches('\n').count();
            self.rest = trimmed;
            if !self.rest.starts_with('#') {
                break;
            }
            let end = self.rest.find('\n').unwrap_or(self.rest.len());
            self.rest = &self.rest[end..];
        }
        match self.rest.strip_prefix(c) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn block(&mut self, kind: String, depth: usize) -> Result<Block, DisksimError> {
        if depth > DEPTH_MAX {
            return self.error("blocks are nested too deeply");
        }
        let line = self.line;
        if !self.take('{') {
            return self.error("expected \"{\"");
        }
        let mut entries = Vec::new();
        while !self.take('}') {
            let key = self.until(&['=', '}']);
            if !self.take('=') {
                return self.error("expected \"key = value\" or \"}\"");
            }
            entries.push((key.trim().to_owned(), self.value(depth)?));
            if !self.take(',') && !self.rest.starts_with('}') {
                return self.error("expected \",\" or \"}\" after a value");
            }
        }
        Ok(Block { file: self.file, line, kind, entries })
    }

    fn value(&mut self, depth: usize) -> Result<Value, DisksimError> {
        if depth > DEPTH_MAX {
            return self.error("lists are nested too deeply");
        }
        if self.take('[') {
            let mut list = Vec::new();
            while !self.take(']') {
                list.push(self.value(depth + 1)?);
                if !self.take(',') && !self.rest.starts_with(']') {
                    return self.error("expected \",\" or \"]\" in a list");
                }
            }
            return Ok(Value::List(list));
        }
        let line = self.line;
        let text = self.until(&[',', '{', '}', ']']).trim().to_owned();
        match self.rest.starts_with('{') {
            true => Ok(Value::Block(self.block(text, depth + 1)?)),
            false => Ok(Value::Text(line, text)),
        }
    }
}

#[cfg(test)]
mod tests;
