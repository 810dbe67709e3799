//! What a guest shows, seen through QEMU: when the first picture is there.
//!
//! A picture is a frame in which more pixels than a text cursor has differ from what was shown when
//! the initramfs began. After a change of resolution that is an empty screen: the colour of its
//! corner.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use config::Failure;
use serde_json::{Value, json};

/// Pixels of a text cursor, or of any other character: 9 x 16, and some more.
const CURSOR_PIXELS: usize = 256;
/// How long QEMU may take for an answer.
const PATIENCE: Duration = Duration::from_secs(20);

/// A frame, three bytes a pixel.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Frame {
    size: (usize, usize),
    pixels: Vec<u8>,
}

impl Frame {
    /// A portable pixmap, as QEMU writes it.
    fn parse(file: &[u8]) -> Option<Frame> {
        let mut at = 0;
        let mut word = || {
            let start = at + file[at..].iter().position(|byte| !byte.is_ascii_whitespace())?;
            let length = file[start..].iter().position(u8::is_ascii_whitespace)?;
            at = start + length;
            std::str::from_utf8(&file[start..at]).ok()
        };
        let (magic, width, height, deepest) = (word()?, word()?, word()?, word()?);
        let (width, height): (usize, usize) = (width.parse().ok()?, height.parse().ok()?);
        let pixels = file.get(at + 1..)?.to_vec();
        let fits = magic == "P6" && deepest == "255";
        let whole = width.checked_mul(height)?.checked_mul(3)? == pixels.len();
        (fits && whole && !pixels.is_empty()).then_some(Frame { size: (width, height), pixels })
    }

    /// Pixels that are not those of `before`, or of an empty screen where that had another size.
    fn changed(&self, before: &Frame) -> usize {
        let pixels = self.pixels.chunks_exact(3);
        if self.size == before.size {
            pixels.zip(before.pixels.chunks_exact(3)).filter(|(a, b)| a != b).count()
        } else {
            let empty = &self.pixels[..3];
            pixels.filter(|pixel| *pixel != empty).count()
        }
    }
}

/// QEMU's monitor, asked for frames.
pub(super) struct Screen {
    monitor: BufReader<UnixStream>,
    file: PathBuf,
    /// What was shown at first.
    before: Option<Frame>,
    picture: bool,
}

impl Screen {
    /// Talk to the monitor at `socket`; frames go through a file in `folder`.
    pub(super) fn open(socket: &Path, folder: &Path) -> Result<Screen, Failure> {
        let wrong = |why: std::io::Error| Failure::machine(format!("QEMU's monitor: {why}"));
        let stream = UnixStream::connect(socket).map_err(wrong)?;
        stream.set_read_timeout(Some(PATIENCE)).map_err(wrong)?;
        let mut screen = Screen {
            monitor: BufReader::new(stream),
            file: folder.join("frame"),
            before: None,
            picture: false,
        };
        screen.order("qmp_capabilities", &json!({}))?;
        Ok(screen)
    }

    /// Look; the first look is what all others are compared with. `Some` with the moment, once,
    /// when there is a picture.
    pub(super) fn look(&mut self) -> Result<Option<Instant>, Failure> {
        if self.picture {
            return Ok(None);
        }
        let at = Instant::now();
        self.order("screendump", &json!({ "filename": self.file }))?;
        let file = fs::read(&self.file)
            .map_err(|why| Failure::machine(format!("{}: {why}", self.file.display())))?;
        let frame = Frame::parse(&file)
            .ok_or_else(|| Failure::machine("QEMU's picture of the screen cannot be read"))?;
        match &self.before {
            None => self.before = Some(frame),
            Some(before) => self.picture = frame.changed(before) > CURSOR_PIXELS,
        }
        Ok(self.picture.then_some(at))
    }

    /// Ask for something and wait until it is done.
    fn order(&mut self, name: &str, arguments: &Value) -> Result<(), Failure> {
        let wrong = |why: std::io::Error| Failure::machine(format!("QEMU's monitor: {why}"));
        let line = json!({ "execute": name, "arguments": arguments });
        writeln!(self.monitor.get_mut(), "{line}").map_err(wrong)?;
        loop {
            let mut line = String::new();
            if self.monitor.read_line(&mut line).map_err(wrong)? == 0 {
                return Err(Failure::machine("QEMU's monitor is gone"));
            }
            let answer: Value = serde_json::from_str(&line).unwrap_or_default();
            if let Some(why) = answer["error"]["desc"].as_str() {
                return Err(Failure::machine(format!("QEMU: {name}: {why}")));
            }
            if answer.get("return").is_some() {
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(width: usize, height: usize, painted: usize) -> Frame {
        let mut pixels = vec![0; width * height * 3];
        pixels[30..30 + painted * 3].fill(200);
        let file = [format!("P6\n{width} {height}\n255\n").as_bytes(), &pixels].concat();
        Frame::parse(&file).unwrap()
    }

    #[test]
    fn a_cursor_is_no_picture_and_neither_is_an_empty_screen_of_another_size() {
        let before = frame(64, 48, 0);
        assert_eq!(before.changed(&before), 0);
        assert_eq!(frame(64, 48, 144).changed(&before), 144);
        assert_eq!(frame(80, 60, 0).changed(&before), 0);
        assert_eq!(frame(80, 60, 1000).changed(&before), 1000);
    }

    #[test]
    fn what_is_no_frame_is_refused() {
        for wrong in ["", "P6\n2 2\n255\n", "P5\n1 1\n255\nabc", "P6 9 9", "P6\n0 0\n255\n"] {
            assert_eq!(Frame::parse(wrong.as_bytes()), None, "{wrong:?}");
        }
        assert!(Frame::parse(b"P6\n1 1\n255\nabc").is_some());
    }
}
