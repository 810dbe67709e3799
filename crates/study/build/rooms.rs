//! The rooms of the house: the only list of them. The build script of `study` takes the code
//! version from it, `xtask` the rules of tidy.

/// What a room's code has a say in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// Decides results, and nothing of the machine reaches it.
    Pure,
    /// Decides results with threads and files.
    Results,
    /// Decides the results of what runs on a guest's kernel.
    Travels,
    /// Decides no result.
    Edge,
}

/// The rooms and their kinds, left to right: one may use those before it, not those after it. A
/// room stands here before it has a folder.
pub(crate) const ROOMS: [(&str, Kind); 15] = [
    ("sim", Kind::Pure),
    ("resume", Kind::Pure),
    ("mirror", Kind::Pure),
    ("config", Kind::Pure),
    ("disk", Kind::Pure),
    ("flash", Kind::Pure),
    ("trace", Kind::Pure),
    ("workload", Kind::Pure),
    ("models", Kind::Pure),
    ("study", Kind::Results),
    ("attach", Kind::Travels),
    ("guest", Kind::Travels),
    ("boot", Kind::Edge),
    ("cli", Kind::Edge),
    ("py", Kind::Edge),
];
