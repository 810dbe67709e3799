//! The screen of a PC in its mode of text, below what the firmware or GRUB wrote.

use core::fmt;
use core::sync::atomic::{AtomicUsize, Ordering};

use blocklab_loader::cpu::memory;

const TEXT: u64 = 0xb8000;
const COLUMNS: usize = 80;
const ROWS: usize = 25;
/// A blank in grey on black.
const BLANK: u16 = 0x0720;

/// The next cell in the last row; the rows above have moved up.
static COLUMN: AtomicUsize = AtomicUsize::new(COLUMNS);

/// The screen. Where there is none, nobody reads what is written.
pub(crate) struct Screen;

impl fmt::Write for Screen {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            let column = COLUMN.load(Ordering::Relaxed);
            match byte {
                b'\n' => COLUMN.store(COLUMNS, Ordering::Relaxed),
                _ => put(column, byte),
            }
        }
        Ok(())
    }
}

fn put(column: usize, byte: u8) {
    let column = if column < COLUMNS {
        column
    } else {
        scroll();
        0
    };
    let cell = TEXT + 2 * (COLUMNS * (ROWS - 1) + column) as u64;
    memory::write(cell, &[byte, (BLANK >> 8) as u8]);
    COLUMN.store(column + 1, Ordering::Relaxed);
}

/// Move all rows up, and clear the last one.
fn scroll() {
    let row_bytes = 2 * COLUMNS as u64;
    for row in 1..ROWS as u64 {
        let from = TEXT + row * row_bytes;
        memory::write(from - row_bytes, memory::slice(from, row_bytes as usize));
    }
    let blank = u64::from(BLANK) * 0x1_0001_0001_0001;
    memory::fill(TEXT + (ROWS as u64 - 1) * row_bytes, COLUMNS / 4, blank);
}
