"""What tiny-chat knows, and the names it learns to copy: plain lists, for generate_chats.py."""

CAPITALS = {
    "France": "Paris", "Italy": "Rome", "Spain": "Madrid", "Germany": "Berlin", "Portugal": "Lisbon", "Greece": "Athens",
    "Austria": "Vienna", "Poland": "Warsaw", "Norway": "Oslo", "Sweden": "Stockholm", "Finland": "Helsinki",
    "Denmark": "Copenhagen", "Ireland": "Dublin", "England": "London", "Belgium": "Brussels", "Hungary": "Budapest",
    "Switzerland": "Bern", "Turkey": "Ankara", "Russia": "Moscow", "Ukraine": "Kyiv", "Japan": "Tokyo", "China": "Beijing",
    "India": "New Delhi", "Egypt": "Cairo", "Kenya": "Nairobi", "Canada": "Ottawa", "Mexico": "Mexico City",
    "Brazil": "Brasilia", "Argentina": "Buenos Aires", "Peru": "Lima", "Australia": "Canberra", "Iceland": "Reykjavik",
}
OTHER_COUNTRIES = ("Chile Cuba Fiji Ghana Iran Iraq Laos Libya Mali Malta Nepal Oman Qatar Samoa Serbia Sudan Syria Togo Tonga "
                   "Yemen Zambia Angola Bolivia Chad Congo Ecuador Gabon Guyana Jamaica Jordan Kuwait Latvia Monaco Morocco "
                   "Atlantis Narnia Texas Bavaria Tuscany Vietnam Thailand Nigeria Estonia Croatia Slovenia Romania").split()

# Thing, the verb that agrees with it, colour.
COLOURS = [
    ("the sky", "is", "blue"), ("grass", "is", "green"), ("snow", "is", "white"), ("the sun", "is", "yellow"),
    ("a banana", "is", "yellow"), ("a lemon", "is", "yellow"), ("a tomato", "is", "red"), ("a strawberry", "is", "red"),
    ("blood", "is", "red"), ("a carrot", "is", "orange"), ("an orange", "is", "orange"), ("coal", "is", "black"),
    ("the night", "is", "black"), ("milk", "is", "white"), ("chocolate", "is", "brown"), ("a frog", "is", "green"),
    ("the sea", "is", "blue"), ("an elephant", "is", "grey"), ("a flamingo", "is", "pink"), ("a pig", "is", "pink"),
    ("a leaf", "is", "green"), ("a cucumber", "is", "green"), ("a polar bear", "is", "white"), ("a raven", "is", "black"),
]

SOUNDS = {
    "cow": "moo", "cat": "meow", "dog": "woof", "sheep": "baa", "pig": "oink", "duck": "quack", "horse": "neigh",
    "lion": "roar", "mouse": "squeak", "bee": "buzz", "frog": "ribbit", "owl": "hoot", "snake": "hiss", "crow": "caw",
    "rooster": "cock-a-doodle-doo", "hen": "cluck", "donkey": "hee-haw", "wolf": "howl", "goose": "honk", "bird": "tweet",
}

DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
MONTHS = "January February March April May June July August September October November December".split()
NUMBERS = "zero one two three four five six seven eight nine ten".split()

NAMES = ("Ann Anna Ben Bob Carl Clara Dan David Ella Emma Eva Finn Frank Fred George Grace Hannah Harry Helen Hugo Ida Ivan Jack "
         "James Jane John Julia Karl Kate Laura Leo Lily Linda Lisa Lucy Luke Maria Mark Martin Mary Max Mia Mike Nina Noah Nora "
         "Olga Oscar Otto Paul Peter Pia Rosa Ruth Sam Sara Simon Sofia Susan Tim Tom Vera Viktor Will Zoe Ahmed Aisha Amir Chen "
         "Diego Elena Fatima Hiro Ines Jamal Kenji Leila Mei Omar Priya Ravi Yuki").split()

CITIES = ("Amsterdam Athens Atlanta Baku Bangkok Barcelona Basel Beijing Berlin Bern Boston Bremen Brussels Budapest Cairo Chicago "
          "Cologne Copenhagen Dallas Delhi Denver Dresden Dubai Dublin Florence Geneva Genoa Ghent Hamburg Hanoi Havana Helsinki "
          "Houston Istanbul Kyiv Kyoto Lagos Leeds Leipzig Lima Lisbon London Lyon Madrid Malaga Manila Miami Milan Moscow Mumbai "
          "Munich Nairobi Naples Nice Osaka Oslo Ottawa Oxford Paris Porto Prague Riga Rome Seattle Seoul Seville Shanghai Sofia "
          "Stockholm Sydney Tallinn Tokyo Toronto Tunis Turin Utrecht Venice Vienna Vilnius Warsaw York Zagreb Zürich Malmö").split() + \
         ["New York", "Los Angeles", "San Francisco", "New Delhi", "Hong Kong", "Buenos Aires", "Mexico City", "Cape Town",
          "São Paulo", "Tel Aviv", "Rio de Janeiro", "Las Vegas"]

CONDITIONS = ["sunny", "cloudy", "rainy", "windy", "foggy", "snowy", "stormy", "clear", "cold", "warm", "partly cloudy", "very hot"]

# Hero of a story, what it wanted, where it went, what it found, how it ended.
HEROES = ["cat", "dog", "mouse", "fox", "bear", "rabbit", "bird", "frog", "dragon", "robot", "king", "princess", "girl", "boy",
          "horse", "owl", "duck", "whale", "star", "tree", "knight", "pirate", "snail", "wizard"]
WISHES = ["wanted to see the sea", "looked for a friend", "lost a red ball", "could not sleep", "dreamed of flying"]
DEEDS = ["walked over a high hill", "asked an old owl for help", "followed a small river", "built a little boat", "waited for the moon"]
ENDINGS = ["found a new friend", "came home happy", "laughed all day", "shared a big cake", "slept very well"]

# For questions that it has no answer to.
THINGS = ("bread cake soup pizza a car a bridge a rocket a computer a house the moon the stars the brain gravity magnets history music "
          "chess football tennis money banks taxes love war peace electricity atoms planets volcanoes rivers poetry opera cars trains "
          "planes ships whales tigers roses trees plants doctors teachers engines clocks phones paper glass wood iron gold silver "
          "physics chemistry mathematics philosophy art painting dancing cooking gardening").replace(" a ", " a_").replace(" the ", " the_").split()
THINGS = [thing.replace("_", " ") for thing in THINGS]
UNKNOWN = [
    "How do I make {x}?", "How does {x} work?", "Who invented {x}?", "Write a poem about {x}.", "Explain {x} to me.",
    "What is the price of {x}?", "Can you write code for {x}?", "What do you think about {x}?", "Why is there {x}?",
    "Where can I buy {x}?", "Who is {n}?", "Who wrote {n}?", "When was {n} born?", "Translate {x} into French.",
    "How old is {n}?", "What is {x}?", "Tell me about {x}.", "Do you like {x}?", "What is the best {x}?", "How many people live in {c}?",
    "What is the history of {c}?", "Where is {c}?", "How far is it to {c}?", "Which film should I watch?", "What time is it?",
    "What is the meaning of life?", "Is there a god?", "Who won the game?", "How tall is {n}?", "Can you help me with {x}?",
    "Give me a recipe for {x}.", "I need advice about {x}.", "Why do people need {x}?", "What is the square root of {x}?",
    "Is {x} good for me?", "Sing a song about {x}.", "Draw {x}.", "Book a flight to {c}.", "What language do they speak in {c}?",
    "Compare {x} and {y}.", "Which is better, {x} or {y}?", "Summarise this text about {x}.", "{x}", "Who is the president?",
    "What is the speed of light?", "Are you alive?", "Do you sleep?", "How heavy is {x}?", "Play {x}.", "Order {x} for me.",
    "Why does {x} matter?", "How can I learn {x}?", "Fix my code.", "What happened in 1990?", "Is {n} your friend?",
]
UNKNOWN_HELD = ["How is {x} made?", "Who discovered {x}?", "What is wrong with {x}?", "Should I visit {c}?", "Write an essay on {x}.",
                "Where does {x} come from?", "Can I eat {x}?", "What does {n} do?"]
