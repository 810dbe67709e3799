//! A file that appears whole or not at all, compressed by the end of its name.

use std::fs::{self, File};
use std::io::{BufWriter, Error, ErrorKind, Result, Write};
use std::path::{Path, PathBuf};

type Sink = BufWriter<File>;

/// Writes beside the target and renames at the end; dropped before, it leaves nothing behind.
pub(super) struct Output {
    sink: Option<Packed>,
    /// The unfinished file; none when the target is a device or a pipe.
    unfinished: Option<PathBuf>,
    /// What it becomes: where a link points, for the link stays one.
    target: PathBuf,
}

enum Packed {
    Plain(Sink),
    Gzip(flate2::write::GzEncoder<Sink>),
    Zstd(zstd::Encoder<'static, Sink>),
}

/// So many links to links are a circle; Linux follows as many.
const LINKS_MAX: usize = 40;

/// Where a name leads in the end, be there a file or not.
fn behind_links(name: &Path) -> PathBuf {
    let mut place = name.to_path_buf();
    for _ in 0..LINKS_MAX {
        let Ok(to) = fs::read_link(&place) else { break };
        place = place.parent().unwrap_or(Path::new("")).join(to);
    }
    place
}

impl Output {
    /// The hidden file that holds what is not yet whole.
    pub(super) fn unfinished(target: &Path) -> Result<PathBuf> {
        study::beside(&behind_links(target))
    }

    /// Start writing what will become `target`.
    pub(super) fn create(target: &Path) -> Result<Output> {
        let special = match fs::metadata(target) {
            Ok(about) => !about.is_file(),
            Err(why) if why.kind() == ErrorKind::NotFound => false,
            // A circle of links, or a folder that cannot be entered.
            Err(why) => return Err(why),
        };
        let place = behind_links(target);
        let unfinished = if special { None } else { Some(study::beside(&place)?) };
        let path = unfinished.as_deref().unwrap_or(target);
        let sink = BufWriter::new(if special {
            File::options().write(true).open(path)?
        } else {
            File::create_new(path)?
        });
        let sink = match target.extension().and_then(|e| e.to_str()) {
            Some("gz") => {
                Packed::Gzip(flate2::write::GzEncoder::new(sink, flate2::Compression::default()))
            }
            Some("zst") => Packed::Zstd(zstd::Encoder::new(sink, 3)?),
            _ => Packed::Plain(sink),
        };
        Ok(Output { sink: Some(sink), unfinished, target: place })
    }

    /// Write the end, make it durable and give it its name.
    pub(super) fn finish(mut self) -> Result<()> {
        let sink = self.sink.take().ok_or_else(|| Error::other("finished twice"))?;
        let buffered = match sink {
            Packed::Plain(sink) => sink,
            Packed::Gzip(encoder) => encoder.finish()?,
            Packed::Zstd(encoder) => encoder.finish()?,
        };
        let file = buffered.into_inner().map_err(|error| error.into_error())?;
        let Some(unfinished) = self.unfinished.as_deref() else { return Ok(()) };
        file.sync_all()?;
        fs::rename(unfinished, &self.target)?;
        self.unfinished = None;
        Ok(())
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        match &mut self.sink {
            Some(Packed::Plain(sink)) => sink.write(bytes),
            Some(Packed::Gzip(encoder)) => encoder.write(bytes),
            Some(Packed::Zstd(encoder)) => encoder.write(bytes),
            None => Err(Error::other("already finished")),
        }
    }

    fn flush(&mut self) -> Result<()> {
        match &mut self.sink {
            Some(Packed::Plain(sink)) => sink.flush(),
            Some(Packed::Gzip(encoder)) => encoder.flush(),
            Some(Packed::Zstd(encoder)) => encoder.flush(),
            None => Ok(()),
        }
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        if let Some(path) = &self.unfinished {
            // The command has failed already; this failure would add nothing.
            let _ = fs::remove_file(path);
        }
    }
}
