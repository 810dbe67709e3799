//! Memory at page boundaries: what the kernel wants for requests past its page cache.

use mirror::format::PAGE_BYTES;

#[derive(Clone, Copy)]
#[repr(C, align(4096))]
struct Page([u8; PAGE_BYTES]);

/// Some pages.
pub(crate) struct Aligned(Vec<Page>);

impl Aligned {
    pub(crate) fn new(pages: usize) -> Aligned {
        Aligned(vec![Page([0; PAGE_BYTES]); pages])
    }

    /// Have so many pages, with whatever is in them.
    pub(crate) fn resize(&mut self, pages: usize) {
        self.0.resize(pages, Page([0; PAGE_BYTES]));
    }

    pub(crate) fn pages(&self) -> u64 {
        self.0.len() as u64
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: a page is nothing but its bytes, and pages lie one behind the other.
        unsafe { std::slice::from_raw_parts(self.0.as_ptr().cast(), self.0.len() * PAGE_BYTES) }
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        let bytes = self.0.len() * PAGE_BYTES;
        // SAFETY: as above, and nobody else has them.
        unsafe { std::slice::from_raw_parts_mut(self.0.as_mut_ptr().cast(), bytes) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_lie_at_page_boundaries() {
        let mut pages = Aligned::new(3);
        assert_eq!(pages.bytes().as_ptr().align_offset(PAGE_BYTES), 0);
        assert_eq!(pages.bytes_mut().len(), 3 * PAGE_BYTES);
        pages.resize(1);
        assert_eq!(pages.bytes().len(), PAGE_BYTES);
    }
}
