//! Memory for a decoder that runs once: what is given is not taken back, but for the last piece.

use core::alloc::{GlobalAlloc, Layout};
use core::cell::UnsafeCell;

struct Free {
    from: usize,
    to: usize,
}

/// Memory that was found free.
pub(crate) struct Arena(UnsafeCell<Free>);

// SAFETY: there is one processor, without interrupts.
unsafe impl Sync for Arena {}

impl Arena {
    pub(crate) const fn empty() -> Arena {
        Arena(UnsafeCell::new(Free { from: 0, to: 0 }))
    }

    /// Give this memory away.
    pub(crate) fn fill(&self, from: u64, bytes: u64) {
        // SAFETY: nobody else looks at it meanwhile: there is one processor.
        let free = unsafe { &mut *self.0.get() };
        *free = Free { from: from as usize, to: (from + bytes) as usize };
    }
}

// SAFETY: pieces do not overlap, and lie in memory that is nobody else's.
unsafe impl GlobalAlloc for Arena {
    // SAFETY: as its trait says.
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        let free = unsafe { &mut *self.0.get() };
        let at = free.from.next_multiple_of(layout.align());
        match at.checked_add(layout.size()) {
            Some(end) if end <= free.to => {
                free.from = end;
                at as *mut u8
            }
            _ => core::ptr::null_mut(),
        }
    }

    // SAFETY: as its trait says.
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: as above.
        let free = unsafe { &mut *self.0.get() };
        if at as usize + layout.size() == free.from {
            free.from = at as usize;
        }
    }
}
