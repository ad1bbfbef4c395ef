//! Tables of the shop's assortment: departments, kinds of products, brands and features.
//!
//! All of it is invented. Prices are in cents, weights in grams.

/// A kind of product: a category of the catalogue below a department.
#[derive(Debug)]
pub(super) struct Kind {
    pub(super) department: &'static str,
    pub(super) name: &'static str,
    /// The noun for one such product in its name.
    pub(super) noun: &'static str,
    pub(super) price: (i64, i64),
    pub(super) weight: (i64, i64),
    /// The name of its drawing in /assets/img.
    pub(super) image: &'static str,
    pub(super) features: &'static [(&'static str, &'static [&'static str])],
}

/// The departments in the order of the menu, each with its description.
pub(super) const DEPARTMENTS: &[(&str, &str)] = &[
    ("Bicycles", "Whole machines, built and tuned in our workshop before they leave."),
    ("Frames", "The beginning of a bicycle of your own, with a fork that fits."),
    ("Wheels", "Rims, hubs, tyres and tubes for streets, gravel and hills."),
    ("Drivetrain", "Everything between your foot and the rear wheel."),
    ("Brakes", "To stop in time, in the rain as well."),
    ("Cockpit", "Where you sit and what you hold."),
    ("Accessories", "Light, safe, dry and with room for the shopping."),
    ("Clothing", "For the way to work and the long way home."),
    ("Workshop", "Tools and care for people who do it themselves."),
];

const SIZES: &[&str] = &["50 cm", "53 cm", "56 cm", "59 cm"];
const WEAR: &[&str] = &["XS to XL", "S to XXL", "S, M and L"];
const COLOURS: &[&str] = &["black", "cream", "signal red", "forest green", "sky blue", "graphite", "mustard"];
const STEEL: &[&str] = &["chromoly steel", "double-butted steel", "aluminium", "titanium"];
const ALLOY: &[&str] = &["forged aluminium", "cold-drawn aluminium", "carbon fibre", "stainless steel"];
const GEARS: &[&str] = &["single speed", "3-speed hub", "8-speed hub", "1x11 derailleur", "2x10 derailleur"];
const WHEEL_SIZES: &[&str] = &["20 inch", "26 inch", "27.5 inch", "28 inch"];
const SPEEDS: &[&str] = &["8 speeds", "9 speeds", "10 speeds", "11 speeds"];
const BRAKING: &[&str] = &["rim brakes", "mechanical disc brakes", "hydraulic disc brakes"];
const BICYCLE: &[(&str, &[&str])] = &[
    ("Frame", STEEL),
    ("Frame sizes", SIZES),
    ("Colour", COLOURS),
    ("Gears", GEARS),
    ("Brakes", BRAKING),
    ("Tyres", &["32 mm", "38 mm", "45 mm", "54 mm"]),
];
const FRAME: &[(&str, &[&str])] = &[
    ("Material", STEEL),
    ("Frame sizes", SIZES),
    ("Colour", COLOURS),
    ("Bottom bracket", &["threaded, 68 mm", "threaded, 73 mm", "eccentric"]),
];
const WHEEL: &[(&str, &[&str])] = &[
    ("Size", WHEEL_SIZES),
    ("Spokes", &["28", "32", "36"]),
    ("Material", ALLOY),
    ("Colour", &["silver", "black"]),
];
const TYRE: &[(&str, &[&str])] = &[
    ("Size", WHEEL_SIZES),
    ("Width", &["28 mm", "32 mm", "40 mm", "50 mm"]),
    ("Puncture protection", &["light", "belt of nylon", "thick belt of rubber"]),
];
const GEARED: &[(&str, &[&str])] =
    &[("Speeds", SPEEDS), ("Material", ALLOY), ("Finish", &["polished", "black", "silver"])];
const BRAKE: &[(&str, &[&str])] = &[
    ("Works with", BRAKING),
    ("Material", ALLOY),
    ("Delivered", &["front and rear", "as a single piece", "with cables and housing"]),
];
const BAR: &[(&str, &[&str])] = &[
    ("Material", ALLOY),
    ("Clamp", &["25.4 mm", "26.0 mm", "31.8 mm"]),
    ("Width", &["400 mm", "440 mm", "580 mm", "640 mm"]),
];
const SOFT: &[(&str, &[&str])] = &[
    ("Cover", &["leather", "waxed cotton", "synthetic leather"]),
    ("Colour", &["honey", "black", "dark brown"]),
];
const GEAR: &[(&str, &[&str])] =
    &[("Colour", COLOURS), ("Mounting", &["without tools", "with the screws supplied", "with straps"])];
const LIGHT: &[(&str, &[&str])] = &[
    ("Brightness", &["40 lux", "70 lux", "100 lux"]),
    ("Power", &["hub dynamo", "battery, 6 hours", "battery, 14 hours"]),
    ("Mounting", &["fork crown", "handlebar", "carrier"]),
];
const GARMENT: &[(&str, &[&str])] = &[
    ("Sizes", WEAR),
    ("Colour", COLOURS),
    ("Fabric", &["merino wool", "waxed cotton", "recycled polyester"]),
];
const TOOL: &[(&str, &[&str])] = &[
    ("Material", &["chrome vanadium steel", "hardened steel", "aluminium"]),
    ("Guarantee", &["2 years", "10 years"]),
];
const CARE: &[(&str, &[&str])] =
    &[("Content", &["50 ml", "100 ml", "250 ml"]), ("Base", &["wax", "plant oil", "water"])];

macro_rules! kinds {
    ($($department:literal: $name:literal, $noun:literal, $price:expr, $weight:expr, $image:literal, $features:expr;)*) => {
        &[$(Kind {
            department: $department, name: $name, noun: $noun, price: $price, weight: $weight, image: $image,
            features: $features,
        },)*]
    };
}

/// All kinds, by department.
pub(super) const KINDS: &[Kind] = kinds! {
    "Bicycles": "City bikes", "city bike", (59_900, 189_900), (11_500, 17_000), "bike-city", BICYCLE;
    "Bicycles": "Touring bikes", "touring bike", (99_900, 289_900), (12_500, 16_500), "bike-touring", BICYCLE;
    "Bicycles": "Road bikes", "road bike", (89_900, 399_900), (7_800, 10_500), "bike-road", BICYCLE;
    "Bicycles": "Mountain bikes", "mountain bike", (94_900, 349_900), (11_800, 14_500), "bike-mountain", BICYCLE;
    "Bicycles": "Cargo bikes", "cargo bike", (189_900, 489_900), (21_000, 34_000), "bike-cargo", BICYCLE;
    "Bicycles": "Folding bikes", "folding bike", (74_900, 199_900), (9_900, 13_000), "bike-folding", BICYCLE;
    "Bicycles": "Children's bikes", "children's bike", (24_900, 59_900), (6_500, 9_500), "bike-city", BICYCLE;
    "Bicycles": "Single-speeds", "single-speed", (54_900, 149_900), (8_200, 10_800), "bike-road", BICYCLE;
    "Frames": "Steel frames", "frame", (39_900, 149_900), (1_750, 2_400), "frame", FRAME;
    "Frames": "Frame sets", "frame set", (59_900, 219_900), (2_300, 3_300), "frame", FRAME;
    "Frames": "Forks", "fork", (8_900, 44_900), (680, 1_150), "fork", FRAME;
    "Wheels": "Wheel sets", "wheel set", (18_900, 99_900), (1_550, 2_400), "wheel", WHEEL;
    "Wheels": "Rims", "rim", (3_490, 14_900), (390, 620), "wheel", WHEEL;
    "Wheels": "Hubs", "hub", (3_990, 24_900), (180, 1_750), "hub", WHEEL;
    "Wheels": "Tyres", "tyre", (1_990, 6_990), (290, 980), "tyre", TYRE;
    "Wheels": "Tubes", "tube", (490, 1_290), (90, 220), "tyre", TYRE;
    "Drivetrain": "Chains", "chain", (1_290, 5_990), (240, 320), "chain", GEARED;
    "Drivetrain": "Cassettes", "cassette", (2_490, 18_900), (210, 460), "cassette", GEARED;
    "Drivetrain": "Cranksets", "crankset", (5_990, 34_900), (620, 980), "crank", GEARED;
    "Drivetrain": "Derailleurs", "derailleur", (2_990, 21_900), (190, 340), "derailleur", GEARED;
    "Drivetrain": "Pedals", "pair of pedals", (1_990, 15_900), (250, 480), "pedal", GEARED;
    "Brakes": "Rim brakes", "rim brake", (1_990, 9_900), (150, 390), "brake", BRAKE;
    "Brakes": "Disc brakes", "disc brake", (4_990, 22_900), (240, 420), "disc", BRAKE;
    "Brakes": "Brake pads", "set of brake pads", (690, 2_990), (30, 80), "brake", BRAKE;
    "Brakes": "Levers", "pair of levers", (1_490, 8_900), (120, 260), "lever", BRAKE;
    "Cockpit": "Handlebars", "handlebar", (2_490, 17_900), (240, 480), "handlebar", BAR;
    "Cockpit": "Stems", "stem", (1_990, 11_900), (110, 290), "handlebar", BAR;
    "Cockpit": "Grips and tape", "pair of grips", (990, 4_990), (60, 180), "grip", SOFT;
    "Cockpit": "Saddles", "saddle", (2_990, 16_900), (220, 540), "saddle", SOFT;
    "Cockpit": "Seatposts", "seatpost", (1_990, 12_900), (180, 410), "saddle", BAR;
    "Accessories": "Lights", "light", (1_490, 15_900), (40, 260), "light", LIGHT;
    "Accessories": "Locks", "lock", (2_490, 12_900), (700, 2_300), "lock", GEAR;
    "Accessories": "Bells", "bell", (690, 3_990), (40, 120), "bell", GEAR;
    "Accessories": "Pumps", "pump", (1_490, 7_990), (110, 1_600), "pump", GEAR;
    "Accessories": "Racks", "rack", (2_490, 13_900), (480, 1_150), "rack", GEAR;
    "Accessories": "Bags", "bag", (2_990, 17_900), (320, 1_900), "bag", SOFT;
    "Accessories": "Mudguards", "pair of mudguards", (1_990, 6_990), (320, 690), "wheel", GEAR;
    "Accessories": "Child seats", "child seat", (6_990, 21_900), (3_200, 5_100), "rack", GEAR;
    "Clothing": "Helmets", "helmet", (3_990, 18_900), (230, 420), "helmet", GARMENT;
    "Clothing": "Gloves", "pair of gloves", (1_990, 6_990), (60, 140), "glove", GARMENT;
    "Clothing": "Jackets", "jacket", (5_990, 24_900), (210, 620), "jacket", GARMENT;
    "Clothing": "Jerseys", "jersey", (3_990, 12_900), (130, 260), "jacket", GARMENT;
    "Clothing": "Shoes", "pair of shoes", (6_990, 22_900), (560, 840), "shoe", GARMENT;
    "Workshop": "Tools", "tool", (790, 9_900), (40, 900), "tool", TOOL;
    "Workshop": "Stands", "workshop stand", (8_900, 29_900), (4_200, 9_800), "tool", TOOL;
    "Workshop": "Oils and waxes", "chain wax", (690, 1_990), (60, 290), "oil", CARE;
};

/// The brands, each with the sentence on its page.
pub(super) const BRANDS: &[(&str, &str)] = &[
    ("Mission", "Our own brand: welded two streets away, painted next door."),
    ("Dolores", "Touring machines and bags since 1974."),
    ("Valencia", "Quick and light, for people who leave home too late."),
    ("Guerrero", "Strong things for loads, children and dogs."),
    ("Harrison", "Tools and workshop goods that outlive their owners."),
    ("Folsom", "Lights and electrics, made to be repaired."),
    ("Bryant", "Wheels built by hand, one by one."),
    ("Potrero", "For the hills and what lies behind them."),
    ("Bernal", "Leather, cotton and wool from small makers."),
    ("Alameda", "Plain parts at plain prices."),
    ("Marin", "Brakes and levers with a fifty-year supply of spares."),
    ("Balboa", "Clothing for weather."),
];

/// Names of product lines. A product's name consists of brand, line and noun.
pub(super) const LINES: &[&str] = &[
    "Aurora", "Bantam", "Cadence", "Drift", "Ember", "Fathom", "Gale", "Harbour", "Iris", "Juniper",
    "Kestrel", "Lantern", "Meridian", "Nomad", "Orchard", "Passage", "Quarry", "Rambler", "Saffron", "Tempo",
    "Umber", "Voyager", "Wren", "Yarrow", "Zephyr", "Atlas", "Beacon", "Compass", "Dune", "Echo", "Falcon",
    "Grove",
];

/// Topics of articles, each with its description.
pub(super) const TOPICS: &[(&str, &str)] = &[
    ("Repairs", "How to mend it, with what, and when to leave it to us."),
    ("Commuting", "Every day, in every weather."),
    ("Touring", "Two wheels, two bags and a map."),
    ("Buying guides", "What to look for, and what to leave in the shop."),
    ("News", "What happens in the shop and on the streets."),
    ("People", "Riders, builders and postmen."),
    ("History", "Where it all comes from."),
    ("Safety", "Seen, heard and in one piece."),
    ("Families", "Seats, trailers and first bicycles."),
    ("Racing", "On the track and across the mud."),
];

/// Free tags of products and articles.
pub(super) const TAGS: &[&str] = &[
    "steel", "rain", "winter", "night", "gravel", "hills", "bags", "lights", "wheels", "brakes", "chain",
    "tyres", "leather", "maps", "trains", "children", "dogs", "markets", "museums", "coffee", "camping",
    "rivers",
];

/// Towns of members, and in texts.
pub(super) const TOWNS: &[&str] = &[
    "Northport",
    "Ashford",
    "Bellhaven",
    "Millbridge",
    "Stonefield",
    "Larkhill",
    "Eastmoor",
    "Rivermouth",
    "Weststrand",
    "Oakham",
    "Fernley",
    "Coldwater",
    "Highgate",
    "Saltmarsh",
    "Kingsferry",
    "Thornbury",
];

/// First names of users and of guests who comment.
pub(super) const FIRST_NAMES: &[&str] = &[
    "Ada", "Bruno", "Clara", "David", "Elena", "Felix", "Greta", "Hugo", "Ines", "Jonas", "Katja", "Leo",
    "Mara", "Nils", "Olga", "Paul", "Rosa", "Simon", "Tilda", "Viktor", "Wanda", "Yusuf",
];
/// Last names of users.
pub(super) const LAST_NAMES: &[&str] = &[
    "Arnold", "Berger", "Castle", "Drew", "Ellis", "Fisher", "Grant", "Holm", "Irving", "Jansen", "Keller",
    "Lund", "Moss", "North", "Okafor", "Pell", "Quist", "Rivers", "Sato", "Tull", "Vance", "Wood",
];
