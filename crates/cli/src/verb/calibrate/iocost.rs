//! A part of the six sustained rates of a drive: they are the part, and nothing is fitted.

use serde_json::json;
use study::Failure;

use super::super::measured::iocost::{RATES, Rates};
use super::Fitting;
use super::flash::refuse_options;
use super::knobs::Base;
use super::write::{self, Findings};
use crate::say;

/// Runs that are further from their median than this, as a share of it, are not of one drive.
const APART_MAX: f64 = 0.25;

/// Write the part.
///
/// # Errors
/// What is wrong with the options or the base; what keeps a part from being built or written.
pub(super) fn run(from: &Fitting, found: &Rates) -> Result<u8, Failure> {
    refuse_options(from, ("a table of six rates", "they are the part"))?;
    let model = study::model_of(&from.base)?;
    if model != "iocost" {
        let what = format!("{}: the model `{model}` has no six rates", from.base);
        return Err(Failure::input(what)
            .expected("a part of the model `iocost`")
            .help("blocklab list parts shows some, such as iocost/samsung-ssd-970-pro-512gb"));
    }
    let mut base = Base::read(&from.base, &[], &[], &[])?;
    let capacity = found.capacity.map(|bytes| format!("iocost.capacity=\"{bytes:.0}B\""));
    let rates = RATES.iter().zip(found.rates).map(|(name, rate)| match name.ends_with("bps") {
        true => format!("iocost.{name}=\"{rate:.0}B/s\""),
        false => format!("iocost.{name}={rate:.0}"),
    });
    let own: Vec<String> = capacity.into_iter().chain(rates).collect();
    // What the command line says goes before what was measured.
    let sets = [own.clone(), from.sets.clone()].concat();
    study::build_part(&from.base, &sets, 1)?;
    base.lay(&sets)?;
    let (apart, rate) = found.apart;
    let runs = match found.runs {
        1 => "one run".to_string(),
        runs => format!(
            "medians of {runs} runs: {rate} of one is {:.0} % from its median, the others are \
             nearer",
            100.0 * apart
        ),
    };
    let of = format!("the six rates of {}, {runs}", write::name_of(&from.from));
    let mut source = vec![("iocost".to_string(), of.clone())];
    let asked = |key: &str| from.sets.iter().any(|set| set.split('=').next() == Some(key));
    let kept = found.capacity.is_none() && !asked("iocost.capacity");
    source.extend(kept.then(|| ("iocost.capacity".into(), format!("of {}", from.base))));
    let (error, fits) =
        (format!("{of}; no latency below saturation, no state"), apart <= APART_MAX);
    write::part(from, base.table, Findings { error, fits, source })?;
    let note = kept.then(|| format!("no column `size_bytes`: it sells what {} does", from.base));
    if from.json {
        let rates: serde_json::Map<_, _> =
            RATES.iter().zip(found.rates).map(|(name, it)| (name.to_string(), json!(it))).collect();
        say(json!({ "part": from.out.display().to_string(), "runs": found.runs, "rates": rates,
                    "apart": apart, "fits": fits, "notes": note.as_slice() }));
    } else {
        if !fits {
            say(format!(
                "no answer: runs of one drive are no more than {} % apart",
                100.0 * APART_MAX
            ));
        }
        own.iter().for_each(say);
        say(of);
        note.iter().for_each(|note| say(format!("note: {note}")));
        say(format!("wrote {}", from.out.display()));
    }
    Ok(u8::from(!fits))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        fit: Fitting,
    }

    #[test]
    fn six_rates_are_a_part() {
        let folder = attach::PrivateFolder::new().unwrap();
        let place = |name: &str| folder.path.join(name).display().to_string();
        let head = "model,size_bytes,rbps,rseqiops,rrandiops,wbps,wseqiops,wrandiops";
        let calibrate = |rows: &str, more: &[&str]| {
            std::fs::write(place("a.csv"), format!("{head}\n{rows}")).unwrap();
            let _ = std::fs::remove_file(place("mine.toml"));
            let (from, out) = (place("a.csv"), place("mine.toml"));
            let args = ["calibrate", "--from", &*from, "--out", &*out];
            let line: Line = clap::Parser::parse_from(args.iter().chain(more));
            let code = line.fit.run()?;
            Ok::<_, Failure>((code, std::fs::read_to_string(&out).unwrap()))
        };
        let base = ["--base", "iocost/samsung-ssd-970-pro-512gb"];
        let row = "a,64000000000,2000000000,300000,200000,1000000000,150000,100000\n";
        let (code, part) = calibrate(row, &base).unwrap();
        let kept =
            ["capacity = \"64000000000B\"", "rbps = \"2000000000B/s\"", "wrandiops = 100000"];
        for said in kept.into_iter().chain(["one run", "status = \"calibrated\""]) {
            assert!(part.contains(said), "{said}: {part}");
        }
        assert_eq!(code, 0);
        study::build_part(&place("mine.toml"), &[], 1).unwrap();
        // The command line goes first; and what is far apart is none of one drive.
        let twice = [row, &row.replace("300000", "900000")].concat();
        let set = [&base[..], &["--set", "iocost.wrandiops=90000"]].concat();
        let (code, part) = calibrate(&twice, &set).unwrap();
        assert!(part.contains("wrandiops = 90000") && part.contains("rseqiops = 600000"), "{part}");
        assert!(code == 1 && part.contains("status = \"sketch\""), "{part}");
        let wrong = |more: &[&str]| calibrate(row, more).unwrap_err().message;
        assert_eq!(
            wrong(&["--base", "tlc-3d-128"]),
            "tlc-3d-128: the model `ssd` has no six rates"
        );
        let fitted = wrong(&[&base[..], &["--fit", "iocost.rbps"]].concat());
        assert!(fitted.ends_with("a.csv is a table of six rates"), "{fitted}");
    }
}
