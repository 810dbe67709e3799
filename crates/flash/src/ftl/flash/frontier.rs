//! Which open block of a plane takes a page.

/// A write frontier: which open block of a plane takes a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Frontier(pub u8);

impl Frontier {
    /// Pages the host writes.
    pub const HOST: Frontier = Frontier(0);
    /// Pages moved by garbage collection or wear levelling, when they are kept apart.
    pub const MOVED: Frontier = Frontier(1);
    /// Pages of the mapping table.
    pub const MAP: Frontier = Frontier(2);
    /// Open blocks of a plane that every drive has; a mapping may ask for more.
    pub const COMMON: u8 = 3;
    /// Pages the host writes into blocks used as pSLC, on a drive [with such](super::Pslc).
    pub const PSLC: Frontier = Frontier(Frontier::COMMON);
    /// A block that the mapping fills and erases itself; the collector leaves it alone.
    pub(super) const OWN: Frontier = Frontier(254);
    /// A free block.
    pub(super) const FREE: Frontier = Frontier(255);

    /// Pages the host writes with a placement handle. Handle 0 is the common frontier.
    pub fn of_handle(handle: u8) -> Frontier {
        if handle == 0 { Frontier::HOST } else { Frontier(Frontier::COMMON + handle - 1) }
    }

    /// Pages that were moved and belong to the same one of `handles` as those of this frontier.
    pub fn moved_of(self, handles: u8) -> Frontier {
        match self {
            Frontier::HOST | Frontier::MOVED => Frontier::MOVED,
            Frontier(frontier) if frontier < Frontier::COMMON + handles - 1 => {
                Frontier(frontier + handles - 1)
            }
            moved => moved,
        }
    }
}
