//! Page allocation: which plane takes the next logical page. One file per policy.

use config::ConfigError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::flash::{Flash, Frontier};
use crate::ssd::geometry::{Divisor, Geometry};

sim::registry! {
    /// Which plane takes the next page.
    pub enum Allocation("allocation"): Context => Result<Allocator, ConfigError> = {
        Static = "static" => static_,
        Dynamic = "dynamic" => dynamic,
    }
}

/// In which order consecutive pages go over the array: a permutation of the letters C (channel),
/// W (way: package), D (die) and P (plane), the one that changes fastest first.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Order(pub String);

impl Default for Order {
    fn default() -> Order {
        Order("CWDP".into())
    }
}

impl Order {
    /// The planes in stripe order.
    ///
    /// # Errors
    /// When the text is not a permutation of the four letters.
    pub fn stripe(&self, geometry: &Geometry) -> Result<Vec<u32>, ConfigError> {
        let mut letters: Vec<char> = self.0.chars().collect();
        letters.sort_unstable();
        if letters != ['C', 'D', 'P', 'W'] {
            let message = format!(
                "expected a permutation of CWDP (channel, way, die, plane; fastest first), \
                 got \"{}\"",
                self.0
            );
            return Err(ConfigError::new("order", message));
        }
        let planes = geometry.planes_per_die.get();
        let dies = geometry.dies_per_package;
        let packages = geometry.packages_per_channel;
        // (count, distance in plane numbers) of each level.
        let level = |letter| match letter {
            'P' => (planes, 1),
            'D' => (dies, planes),
            'W' => (packages, planes * dies),
            _ => (geometry.channels, planes * dies * packages),
        };
        let plane_of = |mut index: u32| {
            self.0.chars().map(level).fold(0, |plane, (count, distance)| {
                let digit = index % count;
                index /= count;
                plane + digit * distance
            })
        };
        Ok((0..geometry.planes()).map(plane_of).collect())
    }
}

/// What an allocation policy is built with.
#[derive(Clone, Copy, Debug)]
pub struct Context {
    /// The array.
    pub geometry: Geometry,
}

/// How a dynamic allocation chooses among planes with room.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Pick {
    /// The next plane of the stripe that has room.
    #[default]
    RoundRobin,
    /// The plane with the most free blocks, the next in the stripe among equals.
    MostFree,
}

/// Chooses planes. One concrete type: it is asked for every page written.
#[derive(Clone, Debug)]
pub struct Allocator {
    stripe: Vec<u32>,
    planes: Divisor,
    dynamic: Option<Pick>,
    next: u32,
}

sim::snapshot_fields!(Allocator { next });

impl Allocator {
    fn new(stripe: Vec<u32>, dynamic: Option<Pick>) -> Allocator {
        Allocator { planes: Divisor::new(stripe.len() as u32), stripe, dynamic, next: 0 }
    }

    /// True when a logical page always goes to the same plane.
    pub fn is_static(&self) -> bool {
        self.dynamic.is_none()
    }

    /// The planes in stripe order.
    pub fn stripe(&self) -> &[u32] {
        &self.stripe
    }

    /// Behave from now on as if `count` pages had been placed in stripe order.
    pub fn skip(&mut self, count: u32) {
        if self.dynamic.is_some() {
            self.next = self.planes.split(count).1;
        }
    }

    /// The plane for the next copy of `lpn` in the open block of a frontier: one with room while
    /// `reserve` blocks stay free.
    ///
    /// # Errors
    /// The plane that must free a block first; `None` when any plane would do.
    #[inline]
    pub fn choose(
        &mut self,
        frontier: Frontier,
        lpn: u32,
        flash: &Flash,
        reserve: u32,
    ) -> Result<u32, Option<u32>> {
        let Some(pick) = self.dynamic else {
            let plane = self.stripe[self.planes.split(lpn).1 as usize];
            return if flash.has_room(plane, frontier, reserve) {
                Ok(plane)
            } else {
                Err(Some(plane))
            };
        };
        let count = self.stripe.len() as u32;
        let turn = |offset: u32| {
            let index = self.next + offset;
            let index = if index >= count { index - count } else { index };
            (index, self.stripe[index as usize])
        };
        let roomy = |&(_, plane): &(u32, u32)| flash.has_room(plane, frontier, reserve);
        let mut turns = (0..count).map(turn).filter(roomy);
        let chosen = match pick {
            Pick::RoundRobin => turns.next(),
            // min_by_key keeps the first of equals.
            Pick::MostFree => turns.min_by_key(|&(_, p)| std::cmp::Reverse(flash.free_blocks(p))),
        };
        let (index, plane) = chosen.ok_or(None)?;
        self.next = if index + 1 == count { 0 } else { index + 1 };
        Ok(plane)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ssd::geometry::GeometryParams;

    fn geometry() -> Geometry {
        let params = GeometryParams {
            channels: 2,
            packages_per_channel: 3,
            dies_per_package: 2,
            planes_per_die: 4,
            ..GeometryParams::default()
        };
        params.check().unwrap()
    }

    #[test]
    fn every_order_is_a_permutation_of_the_planes() {
        let letters = ['C', 'W', 'D', 'P'];
        let mut seen = 0;
        for a in letters {
            for b in letters {
                for c in letters {
                    for d in letters {
                        let order = Order([a, b, c, d].iter().collect());
                        let Ok(mut stripe) = order.stripe(&geometry()) else { continue };
                        seen += 1;
                        stripe.sort_unstable();
                        assert_eq!(stripe, (0..48).collect::<Vec<_>>(), "{order:?}");
                    }
                }
            }
        }
        assert_eq!(seen, 24);
    }

    #[test]
    fn the_first_letter_changes_fastest() {
        let stripe = |order: &str| Order(order.into()).stripe(&geometry()).unwrap();
        assert_eq!(stripe("CWDP")[..4], [0, 24, 8, 32]);
        assert_eq!(stripe("PDWC")[..5], [0, 1, 2, 3, 4]);
        assert_eq!(stripe("WCDP")[..4], [0, 8, 16, 24]);
    }

    #[test]
    fn a_wrong_order_is_explained() {
        let error = Order("CWDD".into()).stripe(&geometry()).unwrap_err();
        assert!(error.to_string().starts_with("order: expected a permutation of CWDP"));
    }
}
