//! Keys that would do nothing where they stand: each is refused, with what it needs.

use config::ConfigError;

use super::{Pace, PaceParams, Params, Throttle, ThrottleParams, WearPolicy, mapping};
use crate::ssd::buffer::BufferParams;

impl Params {
    /// A scheme that frees its blocks itself asks nobody which one, and moves no cold block.
    pub(super) fn check_used(&self, needs: mapping::Needs) -> Result<(), ConfigError> {
        let own = needs.pools > 0;
        let key = match (&self.gc, &self.wear) {
            (gc, _) if own && *gc != Params::default().gc => "gc",
            (_, WearPolicy::Static(_)) if own => "wear",
            _ => return Ok(()),
        };
        let mapping = self.mapping.name();
        let message =
            format!("mapping = \"{mapping}\" frees its blocks itself and asks no such policy");
        Err(ConfigError::new(key, message))
    }

    /// What pages wait for before they come into the buffer.
    pub(super) fn admission(
        &self,
        buffered: bool,
    ) -> Result<(Option<Pace>, Option<Throttle>), ConfigError> {
        self.check_buffer(buffered)?;
        let BufferParams { pace, throttle, .. } = &self.buffer;
        if pace.is_some_and(|pace| pace.in_turns) && self.collection.turn_pages == 0 {
            let message = "the collector has no turns: set collection.turn_pages";
            return Err(ConfigError::new("buffer.pace.in_turns", message));
        }
        let pace = pace.as_ref().map(PaceParams::check).transpose();
        let throttle = throttle.as_ref().map(ThrottleParams::check).transpose();
        let within = |e: ConfigError| e.within("buffer");
        Ok((pace.map_err(within)?, throttle.map_err(within)?))
    }

    /// What there is to do at a write buffer needs one, and each key what it changes.
    fn check_buffer(&self, buffered: bool) -> Result<(), ConfigError> {
        let BufferParams { pace, throttle, hold_at_waiting, ignore_flush, .. } = &self.buffer;
        let (held, ignores) = (*hold_at_waiting > 0, *ignore_flush);
        let no_buffer = "it is about the write buffer, and there is none: set buffer.capacity";
        let turns = "host and collector take turns at a write buffer: set buffer.capacity";
        let holds = "programs are suspended whatever waits: set buffer.suspend_when_full = false";
        let protected = "with buffer.power_loss_protection flushes are answered at once anyway, \
                         and nothing is lost: one of the two";
        for (key, useless, message) in [
            ("collection.turn_pages", !buffered && self.collection.turn_pages > 0, turns),
            ("buffer.pace", !buffered && pace.is_some(), no_buffer),
            ("buffer.throttle", !buffered && throttle.is_some(), no_buffer),
            ("buffer.hold_at_waiting", !buffered && held, no_buffer),
            ("buffer.ignore_flush", !buffered && ignores, no_buffer),
            ("buffer.hold_at_waiting", held && self.buffer.suspend_when_full, holds),
            ("buffer.ignore_flush", ignores && self.buffer.power_loss_protection, protected),
        ] {
            if useless {
                return Err(ConfigError::new(key, message));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use config::device::Context;
    use sim::Rng;

    use super::*;

    #[test]
    fn what_would_do_nothing_is_refused_by_its_key() {
        let built = |text: &str| {
            let params: Params = toml::from_str(text).unwrap_or_else(|e| panic!("{text}: {e}"));
            params.build(&Context { rng: Rng::new(1, "used") }).map(drop)
        };
        let throttle = "throttle = { page = '60us', owed = '40us', every = '2ms', \
                        hold_back_percent = 20, least_percent = 50 }";
        let buffer = "capacity = '64KiB'";
        for (used, useless, key) in [
            (format!("{buffer}, pace.page = '1ms'"), "pace.page = '1ms'".into(), "buffer.pace"),
            (format!("{buffer}, {throttle}"), throttle.to_string(), "buffer.throttle"),
            (
                format!("{buffer}, ignore_flush = true"),
                "ignore_flush = true".into(),
                "buffer.ignore_flush",
            ),
            (
                format!("{buffer}, suspend_when_full = false, hold_at_waiting = 3"),
                "suspend_when_full = false, hold_at_waiting = 3".into(),
                "buffer.hold_at_waiting",
            ),
            (
                buffer.to_string(),
                format!("{buffer}, hold_at_waiting = 3"),
                "buffer.hold_at_waiting",
            ),
            (
                format!("{buffer}, power_loss_protection = true"),
                format!("{buffer}, power_loss_protection = true, ignore_flush = true"),
                "buffer.ignore_flush",
            ),
        ] {
            let [used, useless] =
                [used, useless].map(|keys| built(&format!("buffer = {{ {keys} }}")));
            assert!(used.is_ok(), "{key}: {used:?}");
            assert_eq!(useless.expect_err(key).key, key);
        }
        for (start, stop, refused) in [(5, 0, false), (5, 5, false), (5, 4, true), (0, 4, false)] {
            let text = format!("start_free_percent = {start}, stop_free_percent = {stop}");
            let built = built(&format!("collection = {{ {text} }}"));
            let key = built.err().map(|e| e.key);
            let expected = refused.then(|| "collection.stop_free_percent".to_string());
            assert_eq!(key, expected, "{text}");
        }
    }
}
