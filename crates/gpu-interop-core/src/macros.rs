//! Macros for what several public types have.

/// Declares an enum of which each row has the variant's name in JSON, C and Python, and its text in messages.
macro_rules! named_enum {
    ($(#[$meta:meta])* $type:ident { $( $(#[$doc:meta])* $variant:ident = $name:literal, $text:literal; )+ }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
        #[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
        #[non_exhaustive]
        pub enum $type {
            $( $(#[$doc])* #[cfg_attr(feature = "serde", serde(rename = $name))] $variant, )+
        }

        impl $type {
            /// Every value, in the order of declaration.
            pub const ALL: &'static [Self] = &[$( Self::$variant, )+];

            /// The name in JSON and in the interfaces for C and Python.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $( Self::$variant => $name, )+ }
            }
        }

        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(match self { $( Self::$variant => $text, )+ })
            }
        }
    };
}

/// Builder methods: `method => field: type of the value, which converts into that of the field`.
macro_rules! setters {
    ($type:ident { $($(#[$doc:meta])* $method:ident => $field:ident: $value:ty;)+ }) => {
        impl $type {
            $(
                $(#[$doc])*
                #[must_use]
                pub fn $method(mut self, $field: $value) -> Self {
                    self.$field = $field.into();
                    self
                }
            )+
        }
    };
}
