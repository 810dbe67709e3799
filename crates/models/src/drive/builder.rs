//! From the name of a part to a drive in its starting state.

use config::device::Context;
use config::{Failure, names};
use sim::{Device, Digest, Lba, Request, Rng};
use toml::{Table, Value};

use super::Drive;
use crate::device::DeviceModel;
use crate::parts::parts;

/// Sectors of one request of a fill: the device may do it in bulk.
const FILL_SECTORS: u64 = 1 << 31;
/// 4 KiB, in sectors.
const UNIT_SECTORS: u64 = 8;

/// How a [`Drive`] is to be. Nothing is checked before [`build`](DriveBuilder::build).
#[derive(Clone, PartialEq, Debug)]
pub struct DriveBuilder {
    source: Source,
    sets: Vec<(String, String)>,
    seed: u64,
    filled_percent: u64,
    overwritten_percent: u64,
}

#[derive(Clone, PartialEq, Debug)]
enum Source {
    Part(String),
    Toml(String),
}

impl DriveBuilder {
    pub(super) fn part(name: &str) -> DriveBuilder {
        DriveBuilder::new(Source::Part(name.into()))
    }

    pub(super) fn toml(text: &str) -> DriveBuilder {
        DriveBuilder::new(Source::Toml(text.into()))
    }

    fn new(source: Source) -> DriveBuilder {
        let (filled_percent, overwritten_percent) = (0, 0);
        DriveBuilder { source, sets: Vec::new(), seed: 1, filled_percent, overwritten_percent }
    }

    /// The seed of all that the drive draws, and of how it was overwritten; 1 unless it is given.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> DriveBuilder {
        self.seed = seed;
        self
    }

    /// Change a parameter of the part: `set("ssd.gc", "fifo")`,
    /// `set("ssd.over_provisioning", "28%")`. The value is one of TOML, or else a string.
    /// `blocklab explain` and the pages of the models have the names.
    #[must_use]
    pub fn set(mut self, key: &str, value: &str) -> DriveBuilder {
        self.sets.push((key.into(), value.into()));
        self
    }

    /// Write so many percent of its capacity once, from its begin on and before time starts.
    #[must_use]
    pub fn filled(mut self, percent: u32) -> DriveBuilder {
        self.filled_percent = percent.into();
        self
    }

    /// Then overwrite what was filled, at random in 4 KiB: so many percent of it. From about 100 on
    /// an SSD collects garbage all the time.
    #[must_use]
    pub fn overwritten(mut self, percent: u32) -> DriveBuilder {
        self.overwritten_percent = percent.into();
        self
    }

    /// The drive, at time 0.
    ///
    /// # Errors
    /// What is wrong with the part or a parameter, and the nearest valid name.
    pub fn build(&self) -> Result<Drive, Failure> {
        let mut drive = self.out_of_the_box()?;
        self.age(&mut *drive.device)?;
        Ok(drive)
    }

    /// The drive that [`Drive::save`] wrote, which a builder of the same part, parameters and seed
    /// has made, with the same version of this crate.
    ///
    /// # Errors
    /// When it is damaged, or was made otherwise.
    pub fn restore(&self, saved: &[u8]) -> Result<Drive, Failure> {
        let mut drive = self.out_of_the_box()?;
        drive.read(saved).map_err(|why| {
            Failure::input(format!("a saved drive cannot be restored: {why}"))
                .expected("the same part, parameters, seed and version that it was saved with")
        })?;
        Ok(drive)
    }

    fn out_of_the_box(&self) -> Result<Drive, Failure> {
        let (name, text) = match &self.source {
            Source::Toml(text) => ("the part", text.as_str()),
            Source::Part(wanted) => {
                *parts().iter().find(|(name, _)| name == wanted).ok_or_else(|| {
                    Failure::input(format!("there is no part named `{wanted}`"))
                        .expected(names::expected(wanted, parts().iter().map(|(name, _)| *name)))
                })?
            }
        };
        let mut part: Table =
            text.parse().map_err(|why| Failure::input(format!("{name}: {why}")))?;
        for (key, value) in &self.sets {
            set(&mut part, key, value)?;
        }
        let (model, table) = part
            .into_iter()
            .find(|(key, _)| DeviceModel::NAMES.contains(&key.as_str()))
            .ok_or_else(|| {
                Failure::input(format!("{name} describes no device"))
                    .expected(format!("a table of {}", DeviceModel::NAMES.join(", ")))
            })?;
        let choice = Table::from_iter([(model.clone(), table)]);
        let mut built_from = Digest::default();
        let made_of = [choice.to_string(), self.seed.to_string(), env!("CARGO_PKG_VERSION").into()];
        made_of.iter().flat_map(|text| text.bytes()).for_each(|byte| built_from.add(byte.into()));
        let wrong = |why: String| Failure::input(format!("{name}, {model}: {why}"));
        let choice: DeviceModel = Value::Table(choice)
            .try_into()
            .map_err(|why: toml::de::Error| wrong(why.to_string().trim().to_string()))?;
        // As the first run of a study with this seed.
        let rng = Rng::new(self.seed, "repeat 0").split("device");
        let device = choice.build(&Context { rng }).map_err(|why| wrong(why.to_string()))?;
        Ok(Drive::new(device, built_from.0))
    }

    fn age(&self, device: &mut dyn Device) -> Result<(), Failure> {
        if self.filled_percent > 100 {
            return Err(Failure::input(format!("filled to {} percent", self.filled_percent))
                .expected("0 to 100"));
        }
        if self.overwritten_percent > 0 && self.filled_percent == 0 {
            return Err(Failure::input("overwritten, and never filled")
                .expected("filled(100) before it, or less than 100"));
        }
        let units = device.limits().sectors() / UNIT_SECTORS;
        let filled = (u128::from(units) * u128::from(self.filled_percent) / 100) as u64;
        let end = filled * UNIT_SECTORS;
        let mut lba = 0;
        while lba < end {
            let sectors = FILL_SECTORS.min(end - lba);
            device.apply(&Request::write(Lba(lba), sectors as u32));
            lba += sectors;
        }
        let mut rng = Rng::new(self.seed, "overwritten");
        let writes = u128::from(filled) * u128::from(self.overwritten_percent) / 100;
        for _ in 0..writes {
            let lba = Lba(rng.below(filled) * UNIT_SECTORS);
            device.apply(&Request::write(lba, UNIT_SECTORS as u32));
        }
        Ok(())
    }
}

/// Put `value` at the dotted path `key`.
fn set(part: &mut Table, key: &str, value: &str) -> Result<(), Failure> {
    let wrong = |what: &str| Failure::input(format!("set {key} = {value}: {what}"));
    let (path, last) = key.rsplit_once('.').ok_or_else(|| {
        wrong("the name has no dot").expected("the model's name first, as in `ssd.gc`")
    })?;
    let mut table = part;
    for name in path.split('.') {
        let entry = table.entry(name).or_insert_with(|| Value::Table(Table::new()));
        table = entry.as_table_mut().ok_or_else(|| wrong(&format!("`{name}` is no table")))?;
    }
    let parsed = format!("value = {value}").parse::<Table>().ok();
    let parsed =
        parsed.filter(|table| table.len() == 1).and_then(|mut table| table.remove("value"));
    table.insert(last.into(), parsed.unwrap_or_else(|| Value::String(value.into())));
    Ok(())
}
