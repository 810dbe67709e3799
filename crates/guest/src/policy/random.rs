//! `random`: a share of the pages leaves, by lot. A choice has to beat it at the same size.

use super::{Page, Policy};

struct Random(f64);

pub(super) fn make(argument: Option<&str>) -> Result<Box<dyn Policy>, String> {
    let share = argument.and_then(|text| text.parse().ok());
    let share = share.filter(|share| (0.0..=1.0).contains(share));
    Ok(Box::new(Random(share.ok_or("expected a share from 0 to 1")?)))
}

impl Policy for Random {
    fn leaves(&self, page: &Page) -> bool {
        // splitmix64: the same lot for the same page.
        let mut lot = page.number.wrapping_add(0x9e37_79b9_7f4a_7c15);
        lot = (lot ^ lot >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        lot = (lot ^ lot >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        lot ^= lot >> 31;
        (lot >> 11) as f64 / (1u64 << 53) as f64 <= self.0
    }
}
