//! The colours that viewers know.
//!
//! Categories and graphs have different palettes, hence two types. Used by marker schemas, by
//! categories and by the profile writers.

macro_rules! palette {
    ($(#[$meta:meta])* $name:ident { $($(#[$variant_meta:meta])* $variant:ident = $text:literal,)+ }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[cfg_attr(all(feature = "engine", unix), derive(serde::Serialize, serde::Deserialize))]
        #[non_exhaustive]
        pub enum $name {
            $($(#[$variant_meta])* #[doc = concat!("`", $text, "`")] $variant,)+
        }

        impl $name {
            /// Every colour of the palette.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The colour's name in a profile.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)+
                }
            }

            /// The colour with this name.
            pub fn from_name(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|color| color.name() == name)
            }
        }
    };
}

palette! {
    /// Colour of a category.
    CategoryColor {
        Transparent = "transparent",
        Blue = "blue",
        Brown = "brown",
        DarkGrey = "darkgrey",
        Green = "green",
        #[default]
        Grey = "grey",
        LightBlue = "lightblue",
        LightGreen = "lightgreen",
        LightRed = "lightred",
        Magenta = "magenta",
        Orange = "orange",
        Purple = "purple",
        Red = "red",
        Yellow = "yellow",
    }
}

palette! {
    /// Colour of a graph or of a single marker.
    GraphColor {
        Blue = "blue",
        Green = "green",
        #[default]
        Grey = "grey",
        Ink = "ink",
        Magenta = "magenta",
        Orange = "orange",
        Purple = "purple",
        Red = "red",
        Teal = "teal",
        Yellow = "yellow",
    }
}
