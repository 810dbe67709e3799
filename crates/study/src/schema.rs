//! JSON Schemas of studies and parts, for editors that complete TOML.

use std::collections::BTreeMap;

use models::registry::{DeviceModel, WorkloadModel};
use schemars::{JsonSchema, schema_for};
use serde_json::{Value, json};

use crate::axis_value::AxisValue;
use crate::block::Block;
use crate::crash::Crash;
use crate::document::{Claim, Expect, Header, PreconditionStep, Report, RunSection};
use crate::travel::Travel;

/// A study, as its schema shows it.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields, rename = "Study")]
#[allow(dead_code, reason = "only its schema is used")]
struct Study {
    /// The question.
    study: Option<Header>,
    /// The device; the model's name is the table's name.
    device: Option<DeviceModel>,
    /// Several devices by label, instead of `device`: the axis "device".
    devices: Option<BTreeMap<String, DeviceModel>>,
    /// The workload; the model's name is the table's name.
    workload: Option<WorkloadModel>,
    /// Several workloads by label, instead of `workload`: the axis "workload".
    workloads: Option<BTreeMap<String, WorkloadModel>>,
    /// Instead of a workload: a program in a real Linux guest.
    travel: Option<Travel>,
    /// Cuts of the power while it runs, and what is left.
    crash: Option<Crash>,
    /// How the device is brought into its starting state, step by step.
    precondition: Option<Vec<PreconditionStep>>,
    /// When a run stops and what of it is measured.
    run: Option<RunSection>,
    /// Axes of the grid: dotted keys of this document and the values they take.
    sweep: Option<BTreeMap<String, Vec<AxisValue>>>,
    /// Statements about the results.
    expect: Option<Vec<Expect>>,
    /// What others say about the results, and how near to it they are.
    claim: Option<Vec<Claim>>,
    /// What the report shows.
    report: Option<Report>,
}

/// What a part says about itself.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields, rename = "PartHeader")]
#[allow(dead_code, reason = "only its schema is used")]
struct PartHeader {
    /// The file's stem.
    name: String,
    /// One line for people.
    title: String,
    /// How far it can be trusted.
    status: Status,
    /// Measured error, for calibrated and validated parts.
    error: Option<String>,
}

/// How far a part can be trusted.
#[derive(JsonSchema)]
#[schemars(rename_all = "kebab-case")]
#[allow(dead_code, reason = "only its schema is used")]
enum Status {
    /// Typical values.
    Sketch,
    /// From a data sheet.
    Datasheet,
    /// Fitted to measurements.
    Calibrated,
    /// Checked against measurements it was not fitted to.
    Validated,
}

/// The schema of a study.
pub fn study_schema() -> Value {
    let mut schema = schema_for!(Study).to_value();
    let part = json!({
        "type": "string",
        "description": "Start from this part (devices/<part>.toml, or a path) and set keys on top",
    });
    for table in device_tables(&schema) {
        let properties = schema.pointer_mut(&format!("{table}/properties"));
        if let Some(properties) = properties.and_then(Value::as_object_mut) {
            properties.insert("part".into(), part.clone());
        }
    }
    schema
}

/// JSON pointers to the parameters of every device model.
fn device_tables(schema: &Value) -> Vec<String> {
    let choices = schema.pointer("/$defs/DeviceModel/oneOf").and_then(Value::as_array);
    let tables = choices.into_iter().flatten().filter_map(|choice| choice.get("properties"));
    let references = tables.filter_map(Value::as_object).flat_map(|table| table.values());
    let pointers = references.filter_map(|schema| schema.get("$ref")?.as_str());
    pointers.map(|pointer| pointer.trim_start_matches('#').to_string()).collect()
}

/// The schema of a part.
pub fn part_schema() -> Value {
    let header = schema_for!(PartHeader).to_value();
    let block = schema_for!(Block).to_value();
    let device = schema_for!(DeviceModel).to_value();
    let mut definitions =
        device.get("$defs").and_then(Value::as_object).cloned().unwrap_or_default();
    for told in [&header, &block] {
        let more = told.get("$defs").and_then(Value::as_object);
        definitions.extend(more.cloned().unwrap_or_default());
    }
    let mut properties = serde_json::Map::new();
    let choices = device.get("oneOf").and_then(Value::as_array).into_iter().flatten();
    for table in choices.filter_map(|choice| choice.get("properties")?.as_object()) {
        properties.extend(table.clone());
    }
    for (name, mut described) in [("part", header), ("block", block)] {
        for key in ["$schema", "$defs"] {
            described.as_object_mut().and_then(|table| table.remove(key));
        }
        properties.insert(name.into(), described);
    }
    properties.insert(
        "source".into(),
        json!({
            "type": "object",
            "description": "Dotted key -> the value's source; a table's key covers what is below",
            "additionalProperties": { "type": "string" },
        }),
    );
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Part",
        "description": "A real device: one model's keys, and where each value comes from",
        "type": "object",
        "additionalProperties": false,
        "required": ["part"],
        "properties": properties,
        "$defs": definitions,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_device_may_start_from_a_part() {
        let schema = study_schema();
        let tables = device_tables(&schema);
        assert_eq!(tables.len(), DeviceModel::NAMES.len());
        for table in tables {
            assert!(schema.pointer(&format!("{table}/properties/part")).is_some(), "{table}");
        }
    }

    #[test]
    fn a_part_holds_one_table_per_model() {
        let schema = part_schema();
        for name in DeviceModel::NAMES {
            assert!(schema.pointer(&format!("/properties/{name}")).is_some(), "{name}");
        }
        assert_eq!(schema["properties"]["part"]["required"], json!(["name", "title", "status"]));
    }
}
