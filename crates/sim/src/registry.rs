//! The registry macro: one line per model, everything else follows from it.

/// Declare a slot of models that TOML chooses by name.
///
/// ```text
/// registry! {
///     /// Which block the collector empties next.
///     pub enum GcPolicy("gc"): Context => Box<dyn Gc> = {
///         Greedy = "greedy" => greedy,
///         CostBenefit = "cost-benefit" => cost_benefit,
///     }
/// }
/// ```
///
/// A line declares its module, too: `greedy.rs` beside the file of the slot. A module of another
/// crate is named with its place, `Hdd = "hdd" => hdd from disk`, and has its own text as
/// `pub const SOURCE: &str`.
///
/// Each module offers `pub struct Params` (`Default`, serde, `JsonSchema`) with
/// `fn build(&self, context: &Context) -> Built`. In TOML the policy's name is the table's name:
/// `gc = "greedy"` takes the defaults, `[device.ssd.gc.d-choices]` sets parameters. The module's
/// own `//!` comment is its documentation everywhere. A model that counts something declares it,
/// `impl Params { pub const COUNTED: sim::metric::Declarations = ...; }`.
///
/// The crate that uses the macro needs `serde` and `schemars`; `sim` itself needs neither.
#[macro_export]
macro_rules! registry {
    (
        $(#[$meta:meta])*
        pub enum $name:ident($slot:literal): $context:ty => $built:ty = {
            $(
                $variant:ident = $label:literal => $module:ident $( from $( $home:ident )::+ )?
            ),+ $(,)?
        }
    ) => {
        $( $crate::registry!(@module $module $(, $( $home )::+ )?); )+

        $(#[$meta])*
        #[derive(Clone, PartialEq, Debug)]
        pub enum $name {
            $(
                #[doc = concat!("`", $label, "`")]
                $variant($module::Params),
            )+
        }

        impl $name {
            /// The slot's name in paths such as `gc.greedy`.
            pub const SLOT: &'static str = $slot;
            /// (name, source text) of every entry, in registry order.
            pub const ENTRIES: &'static [(&'static str, &'static str)] = &[
                $( ($label, $crate::registry!(@source $module $(, $( $home )::+ )?)), )+
            ];
            /// Every name, in registry order.
            pub const NAMES: &'static [&'static str] = &[ $( $label, )+ ];

            /// What the entries count, in registry order.
            pub const COUNTED: &'static [$crate::metric::Declarations] = {
                #[allow(unused_imports)]
                use $crate::metric::CountsNothing as _;
                &[ $( $module::Params::COUNTED, )+ ]
            };

            /// The entry of that name with default parameters.
            pub fn from_name(name: &str) -> Option<$name> {
                match name {
                    $( $label => Some($name::$variant(Default::default())), )+
                    _ => None,
                }
            }

            /// The name of this entry.
            pub fn name(&self) -> &'static str {
                match self {
                    $( $name::$variant(_) => $label, )+
                }
            }

            /// Build the model.
            pub fn build(&self, context: &$context) -> $built {
                match self {
                    $( $name::$variant(params) => params.build(context), )+
                }
            }
        }

        impl ::serde::Serialize for $name {
            fn serialize<S: ::serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                use ::serde::ser::SerializeMap;
                let mut map = to.serialize_map(Some(1))?;
                match self {
                    $( $name::$variant(params) => map.serialize_entry($label, params)?, )+
                }
                map.end()
            }
        }

        impl<'de> ::serde::Deserialize<'de> for $name {
            fn deserialize<D: ::serde::Deserializer<'de>>(from: D) -> Result<$name, D::Error> {
                struct Visitor;
                impl<'de> ::serde::de::Visitor<'de> for Visitor {
                    type Value = $name;
                    fn expecting(&self, f: &mut ::std::fmt::Formatter) -> ::std::fmt::Result {
                        write!(f, "one of {}", $name::NAMES.join(", "))
                    }
                    fn visit_str<E: ::serde::de::Error>(self, name: &str) -> Result<$name, E> {
                        $name::from_name(name)
                            .ok_or_else(|| E::unknown_variant(name, $name::NAMES))
                    }
                    fn visit_map<A: ::serde::de::MapAccess<'de>>(
                        self,
                        mut map: A,
                    ) -> Result<$name, A::Error> {
                        use ::serde::de::Error;
                        let Some(name) = map.next_key::<String>()? else {
                            return Err(A::Error::custom(format!(
                                "expected one of {}", $name::NAMES.join(", ")
                            )));
                        };
                        let value = match name.as_str() {
                            $( $label => $name::$variant(map.next_value()?), )+
                            other => return Err(A::Error::unknown_variant(other, $name::NAMES)),
                        };
                        if let Some(second) = map.next_key::<String>()? {
                            return Err(A::Error::custom(format!(
                                "only one {} can be chosen, not both `{name}` and `{second}`",
                                $slot,
                            )));
                        }
                        Ok(value)
                    }
                }
                from.deserialize_any(Visitor)
            }
        }

        impl ::schemars::JsonSchema for $name {
            fn schema_name() -> ::std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }
            fn json_schema(generator: &mut ::schemars::SchemaGenerator) -> ::schemars::Schema {
                let tables: Vec<::schemars::Schema> = vec![ $( ::schemars::json_schema!({
                    "type": "object",
                    "additionalProperties": false,
                    "required": [$label],
                    "properties": { $label: generator.subschema_for::<$module::Params>() },
                }), )+ ];
                let mut choices = vec![::schemars::json_schema!({
                    "type": "string",
                    "enum": [ $( $label, )+ ],
                })];
                choices.extend(tables);
                ::schemars::json_schema!({ "oneOf": choices })
            }
        }
    };
    (@module $module:ident) => {
        pub mod $module;
    };
    (@module $module:ident, $( $home:ident )::+) => {
        use $( $home:: )+ $module;
    };
    (@source $module:ident) => {
        include_str!(concat!(stringify!($module), ".rs"))
    };
    (@source $module:ident, $( $home:ident )::+) => {
        $module::SOURCE
    };
}
