"""The plots of the story generator.

Each plot is a text in a tiny template language, so that a writer can read and
change it without reading code:

    {slot}         is replaced by something the story has bound once (a name, a
                   pronoun, an object), so it stays the same to the end
    [one|two|]     becomes one of the alternatives; they nest, and an empty one
                   makes the text optional
    a blank line   starts a new paragraph

`PLOTS` maps a plot's name to (text, table). The table gives the extra slots of
that plot: a list of rows, of which one is drawn, so that words that belong
together (a fear and its cure, a seed and its fruit) are always drawn together.

Slots that every story has: H the hero's name; he/him/his and He/His for the
hero; F the friend's name, fdesc the friend with a description, fhe/fhim/fhis;
g the grown-up ("mom"), G the same as a form of address ("Mom"), ghe/ghis;
place ("the park"), at ("in the park"); w the weather; color, toy and thing (a
toy with its colour).
"""

# The hero meets the day. Shared by many plots, so it lives here once.
DAY = "[One {w} day|One {w} morning|One day|One {w} afternoon]"

PLOTS = {}

PLOTS["lost"] = ("""{He} had a {thing} that {he} loved very much. [{He} took it everywhere.|{He} played with it every day.|It was a gift from {his} {g}.|]

""" + DAY + """, {H} could not find {his} {toy}. "[Oh no! Where is my {toy}?|Oh no! My {toy} is gone!|Where did my {toy} go?]" {he} cried. {H} looked {look1}, but it was not there. Then {he} looked {look2}, but it was not there either. [{H} felt very sad.|{H} sat down and started to cry.|A big tear rolled down {his} face.]

{fdesc} [saw {him}|heard {him}|came by] and asked, "[What is wrong|Why are you sad], {H}?" "I lost my {thing}," said {H}. "[Do not worry. I will help you|Let us look for it together]," said {F}. They looked and looked. At last, {F} looked {look3}. "[Here it is!|I found it!|Look, {H}!]" said {F}. It was the {thing}!

{H} [was so happy|gave {F} a big hug|jumped up and down with joy]. "Thank you, {F}! [You are a good friend|You are the best friend in the world]," {he} said. [Then they played with the {toy} all day.|They played together until the sun went down.|From that day on, {H} always put the {toy} in a safe place.]""",
    [dict(look1=a, look2=b, look3=c) for a, b, c in [
        ("under the bed", "behind the door", "inside a big boot"),
        ("behind the chair", "under the table", "in a basket of apples"),
        ("in the tall grass", "behind a big rock", "under a pile of leaves"),
        ("by the gate", "under the bench", "in a bush full of berries"),
        ("on the shelf", "under the blanket", "behind the flower pot"),
        ("near the well", "next to the fence", "inside a hollow log")]])

PLOTS["share"] = (DAY + """, {his} {g} gave {him} [some|a bag of|a plate of|a basket of] {food}. "[Thank you|Oh, thank you], {G}!" said {H}. {He} took the {food} to {place} and sat down to eat.

Soon {he} saw {fdescm}. {F} looked [sad|very sad|hungry and sad]. "What is wrong, {F}?" asked {H}. "{oops}," said {F}. "Now I have nothing to eat."

{H} looked at the {food}. {He} wanted to eat [them all|every one of them]. But {he} did not want {F} to be [sad|hungry]. "[You can have half of my {food}|Let us share my {food}|Here, take some of my {food}]," said {H}. {F} smiled a big smile. "Thank you, {H}! You are so kind," said {fhe}.

The two friends [sat side by side|sat together {at}|sat in the shade of a tree] and ate the {food}. [They tasted even better when they were shared.|{H} learned that sharing made {him} feel warm inside.|The next day, {F} brought something to share with {H} too.] [{H} was happy.|And they were both happy.|]""",
    [dict(food=f, oops=o) for f in ["cookies", "strawberries", "apples", "pancakes", "cherries", "plums", "muffins", "nuts", "pears", "buns"]
     for o in ["I dropped my lunch in the mud", "A crow took my lunch", "I forgot my lunch at home", "I fell and lost my lunch"]])

PLOTS["fear"] = ("""But {H} was afraid of one thing. {He} was afraid of {fear}.

""" + DAY + """, {fdescm} said, "[Come with me, {H}!|Let us have some fun, {H}!] {invite}" {H} [shook {his} head|took a step back|looked at the ground]. "I cannot. I am [too|so] scared," {he} said [in a small voice|quietly|].

{F} did not laugh. "[I was scared once too|It is okay to be scared]," said {F}. "{tip}" {H} took a deep breath. {He} held {F}'s hand and {did}. [At first, {his} legs shook.|{His} heart beat very fast.|It was hard at first.] But nothing bad happened. {nice}

"[I did it|Look, I did it]!" said {H}. "[You are very brave|I knew you could do it]," said {F}. [From that day on, {H} was not afraid of {fear} anymore.|After that, {H} was never so afraid of {fear} again.] [{He} was proud of {himself}.|{He} thanked {F} for being so kind.|]""",
    [dict(fear=a, invite=b, tip=c, did=d, nice=e) for a, b, c, d, e in [
        ("the dark", "We can look at the stars tonight.", "We can hold hands and count to ten in the dark.", "stepped out into the night", "The stars were bright, and the moon smiled down at them."),
        ("the water", "We can swim in the lake.", "We can start with just our feet in the water.", "walked into the lake, one small step at a time", "The water was warm, and it felt soft on {his} skin."),
        ("thunder", "We can watch the storm from the window.", "When the thunder comes, we can sing a loud song.", "sat by the window and sang", "The song was louder than the storm, and it made them both laugh."),
        ("high places", "We can climb the hill and see the whole world.", "Do not look down. Just look at me.", "climbed up the hill, step by step", "From the top, {he} could see the trees, the river and the sea."),
        ("big dogs", "We can go and meet the big brown dog.", "Stand still and let the dog smell your hand.", "walked up to the dog", "The dog licked {his} hand and wagged its tail."),
        ("singing for others", "We can sing a song at the big party.", "Just look at me and sing to me.", "began to sing", "Everyone at the party clapped and cheered."),
        ("the deep forest", "We can pick berries in the forest.", "The trees are our friends. Say hello to each one.", "walked in between the tall trees", "The birds sang, and the sun shone through the leaves.")]])

PLOTS["rescue"] = (DAY + """, {H} [was playing|was walking|was out for a walk] {at} when {he} heard a [small|tiny|sad] voice. "Help! Help me, please!" It was a little {an}. {stuck}

"[Do not be afraid|Do not worry, little {an}]," said {H}. "I will help you." {He} [ran home and got|looked around and found] {tool}. {how} [It was hard work, but {H} did not give up.|{H} was very careful.|] At last, the {an} was free! "Thank you, {H}!" said the {an}. "One day, I will help you too." {H} laughed. "[You are so small|But you are so little]," {he} said. "How can you help me?"

A few days later, {trouble} {H} did not know what to do. Then the little {an} came. "{fix}" said the {an}. And that is just what it did. {H} [smiled|was amazed|was so glad]. "Thank you, little {an}," {he} said. "[Even small friends can be a big help|I was wrong. You may be small, but you are a great friend]." """,
    [dict(an=a, stuck=s, tool=t, how=h, trouble=tr, fix=f) for a, s, t, h, tr, f in [
        ("bird", "Its foot was caught in a thorny bush.", "a pair of scissors", "{He} cut the thorns away, one by one.", "{H} got lost on the way home.", "I can see the way from the sky. Follow me!"),
        ("mouse", "It had fallen into a deep hole.", "a long rope", "{He} let the rope down, and the mouse held on tight.", "{H} dropped {his} key into a crack in the floor.", "I am small enough to get it. Wait here!"),
        ("squirrel", "It was stuck under a heavy branch.", "a strong stick", "{He} pushed the stick under the branch and lifted it up.", "the wind blew {his} hat to the top of a tall tree.", "I can climb any tree. I will bring it down!"),
        ("frog", "It was trapped in an old bucket.", "a flat board", "{He} put the board into the bucket so the frog could climb out.", "{his} ball rolled into the middle of the pond.", "I can swim very well. I will get it for you!"),
        ("firefly", "It was shut in a glass jar.", "a small spoon", "{He} pushed up the lid with the spoon until it popped off.", "it got dark before {H} could get home.", "I will be your lamp. Just follow my light!"),
        ("duck", "Its wing was caught in a net.", "a sharp shell", "{He} cut the net, string by string.", "{his} toy boat floated far out on the lake.", "I can swim out there. I will push it back to you!")]])

PLOTS["baking"] = (DAY + """, {H} wanted to make {dish} for {his} {g}. "[It will be a surprise|{G} will be so happy]," {he} said. {He} got a big bowl and a spoon. {He} put in the {in1} and the {in2}. But then {he} looked in the jar. There was no {miss}!

"[Oh no|Oh dear]! I cannot do it without {miss}," said {H}. So {he} [ran|walked|skipped] to see {fdescm}. "[Hello|Hi], {F}. Do you have some {miss}?" asked {H}. "[Yes, I do|Of course]," said {F}. "[May I help you|Can I come and help]?" "[Yes, please|I would like that]!" said {H}.

They mixed and stirred together. [Soon there was {in1} on {F}'s nose, and they laughed and laughed.|They sang a song while they worked.|They made a big mess, but they cleaned it up.] When it was done, the whole house smelled sweet. {H}'s {g} came in and [said, "What is that lovely smell?"|could not believe {ghis} eyes.] "We made {dish} for you, {G}!" said {H}. {g_the} [took a bite and smiled|gave them both a big hug|laughed with joy]. "[It is the best I have ever had|Thank you, {H}, and thank you, {F}]," {ghe} said. [They all ate together.|And there was enough for everyone.]""",
    [dict(dish=d, in1=i, in2=j, miss=m) for d, i, j in [("a cake", "flour", "eggs"), ("a pie", "flour", "apples"), ("some bread", "flour", "salt"), ("some pancakes", "flour", "eggs"), ("a pudding", "flour", "cream")]
     for m in ["sugar", "milk", "butter", "honey"]])

PLOTS["truth"] = (DAY + """, {H} was playing with {his} {toy} in the house. "{G} told me not to play in here," {he} thought, "but [just one more time|I will be careful]." {He} threw the {toy} up high. Crash! The {toy} hit {his} {g}'s {vase}. The {vase} fell down and broke.

{H} was [scared|very scared|worried]. {He} wanted to [hide under the bed|run away|hide the pieces]. Then {his} {g} came in. "What happened to my {vase}?" {ghe} asked. {H} [looked at the floor|felt {his} face turn red]. {He} could say that the cat did it. But {he} knew that was not [right|true]. "I broke it, {G}," said {H}. "I am [so|very] sorry."

{g_the} was quiet for a moment. Then {ghe} [hugged|smiled at] {H}. "I am sad about the {vase}," {ghe} said, "but I am glad that you told me the truth." {H} felt [much better|light again]. They picked up the pieces and put the {vase} back together with glue. [It was not perfect, but they loved it even more.|Now the {vase} had some thin lines, but it was still pretty.] After that, {H} only played with the {toy} outside.""",
    [dict(toy=t, vase=v) for t in ["ball", "toy plane", "hoop", "yo-yo"]
     for v in ["blue vase", "flower pot", "tea pot", "white cup", "glass bowl", "old lamp"]])

PLOTS["seed"] = (DAY + """, {H} found a [tiny|small|little] seed {at}. "What will it be?" {he} asked {his} {g}. "Plant it and see," said {g_low}. "But you must [wait|be patient]."

{H} dug a small hole and put the seed in. {He} gave it water every [day|morning]. [The first day, nothing happened. The second day, nothing happened.|Day after day, nothing happened.] "[It will never grow|Maybe the seed is asleep]," said {H}. "[Give it time|Wait a little more]," said {g_low}. {fdesc} came to look at it too. "[I think it is growing under the ground|Let us sing to it]," said {F}.

Then one morning, {H} saw a little green leaf. "[Look, {F}! Look, {G}!|It is growing! It is growing!]" {he} shouted. The plant grew and grew. {result} {H} [shared them with|gave some to] {F} and {his} {g}. "[It was worth the wait|Good things take time]," said {H}, and everyone [smiled|agreed|laughed].""",
    [dict(result=r) for r in [
        "Soon it was full of big red tomatoes.", "Soon it was full of sweet strawberries.", "By the end of summer, it had three big orange pumpkins.",
        "It grew taller than the fence and had many yellow sunflowers.", "It made long green beans, more than they could count.", "One day, there were sweet peas on it, all in a row."]])

PLOTS["newfriend"] = (DAY + """, {H} went to {place} to play. There {he} saw a new {fkind} who sat all alone. [Nobody played with {fhim}.|{fHe} looked [sad|shy|lonely].] {H} [wanted to say hello, but {he} was a little shy|remembered how it felt to be alone].

{H} walked over and said, "[Hello|Hi]! My name is {H}. What is your name?" "My name is {F}," said the new {fkind} [in a quiet voice|]. "I [just moved here|am new here]. I do not [have any friends|know anyone]." "[Now you have one friend|I can be your friend]," said {H}. "Do you want to play with my {thing}?" {F} smiled for the first time that day. "[Yes, please|I would love to]!" {fhe} said.

They played with the {toy} all [day|afternoon]. {F} showed {H} how to {skill}, and {H} showed {F} the best places to hide. [They laughed so much that their tummies hurt.|They had so much fun.] When it was time to go home, {F} said, "Thank you, {H}. [I was so lonely, but now I am happy|Today was the best day]." "[See you tomorrow|I will see you again tomorrow], {F}!" said {H}. From that day on, {H} and {F} were best friends.""",
    [dict(skill=s) for s in ["whistle with a leaf", "walk on {fhis} hands", "make a paper boat", "draw a dragon", "jump over a rope", "make a crown of flowers", "skip a stone on the water"]])

PLOTS["lostway"] = (DAY + """, {H} followed a [pretty|bright|big] {lure} into the forest. {His} {g} had told {him} not to go too far. But the {lure} was so [pretty|beautiful], and {H} [forgot|did not think about it]. {He} went on and on. When {he} stopped, {he} did not know where {he} was. The {lure} was gone, and it was getting dark.

"[I want to go home|Oh no, I am lost]," said {H}, and {he} began to cry. An old {guide} [heard {him}|sat in a tree and heard {him}|was near and heard {him}]. "Why are you crying, [little one|little {kind}]?" asked the {guide}. "I followed a {lure}, and now I am lost," said {H}. "[Do not cry|Dry your tears]," said the {guide}. "{lead}"

{H} did what the {guide} said. Soon {he} saw [the lights of {his} home|a light between the trees. It was {his} home]. {His} {g} [ran out and hugged {him}|was waiting at the door]. "I was so worried!" said {g_low}. "I am sorry, {G}," said {H}. "[I will never go so far alone again|Next time, I will stay near home]." {H} turned around to thank the {guide}. "[Thank you, old {guide}|Thank you for your help]!" {he} called. The {guide} [smiled and went back|waved and went back] into the forest.""",
    [dict(lure=l, guide=gd, lead=ld) for l in ["butterfly", "bird", "dragonfly", "balloon"] for gd, ld in [
        ("owl", "I can see in the dark. Follow me, and I will take you home."),
        ("turtle", "I am slow, but I know every path. Walk with me."),
        ("deer", "Get on my back, and I will carry you home."),
        ("badger", "Follow the stream down the hill. I will walk beside you.")]])

PLOTS["race"] = (DAY + """, there was a big race {at}. The winner would get {prize}. {H} [wanted to win very much|wanted {prize} more than anything]. {He} had [run|practiced] every day. {fdesc} was in the race too. "[Good luck|May the best one win], {H}," said {F}. "[Good luck to you too|You too], {F}," said {H}.

[One, two, three, go!|Ready, set, go!] They ran as fast as they could. {H} was [first|in front], and {F} was right behind {him}. Then {H} heard a cry. {F} had {fall}! {H} could see the end of the race. {He} could win! But {he} [stopped|turned around] and ran back. "Are you hurt, {F}?" {he} asked. "[My leg hurts|I hurt my foot]," said {F}. {H} helped {fhim} up, and they walked to the end together. They came in last.

But everyone clapped and cheered for them. "[You did not win the race|You were not the fastest], {H}," said {his} {g}, "but you have the biggest heart." [Then they gave {prize} to {H} for being so kind.|The winner came and shared {prize} with {H} and {F}.] {H} [smiled|was happy] and [held {F}'s hand|hugged {F}]. "[A friend is better than {prize}|I am glad that you are okay, {F}]," said {H}.""",
    [dict(prize=p, fall=f) for p in ["a gold cup", "a big cake", "a shiny medal", "a basket of fruit"]
     for f in ["tripped over a root", "slipped in the mud", "fallen over a stone"]])

PLOTS["build"] = (DAY + """, {H} [decided|wanted] to build {a_build} {at2}. {He} worked and worked. [It was getting taller and taller.|It took all morning.] But then {crash} The {build} fell down!

{H} [stamped {his} foot|was very angry|wanted to cry]. "[I give up|I will never build again]!" {he} said. {fdesc} [came over|saw what happened]. "That was a very good {build}," said {F}. "[Why did it fall|What happened]?" "{why}," said {H}. "Then let us try again," said {F}. "{plan}"

So they started again, and this time they worked together. {F} brought the {part}, and {H} put them in place. They were [slow and careful|very careful]. When it was done, it was the best {build} that anyone had ever seen. And it did not fall down! "[We did it, {F}|Look what we made, {F}]!" said {H}. "[It is good that you did not give up|You only had to try again]," said {F}. [They put a little flag on top|They danced around it] and [cheered|laughed].""",
    [dict(build=b, a_build="a big " + b, at2=a, crash=c, why=w, plan=p, part=q) for b, a, c, w, p, q in [
        ("sand castle", "on the beach", "a wave came.", "I was too close to the water", "We can build it far from the water, with a strong wall.", "shells and stones"),
        ("tower", "out of blocks", "it shook.", "The bottom was too small", "We can put the biggest blocks at the bottom.", "blocks"),
        ("tree house", "in the old oak tree", "the wind blew.", "The ropes were too weak", "We can use strong ropes and tie them two times.", "boards"),
        ("dam", "in the little stream", "the water pushed.", "The sticks were too thin", "We can use thick sticks and fill the holes with mud.", "sticks"),
        ("snowman", "in the garden", "the sun came out.", "I built it in the sun", "We can build it in the shade, where it is cold.", "balls of snow"),
        ("raft", "by the pond", "the string broke.", "The string was too thin", "We can use thick rope and make good knots.", "logs")]])

PLOTS["gift"] = ("""It was almost {F}'s birthday. {F} was {H}'s best friend. {H} wanted to give {fhim} something [special|very special], but {he} had no money. "[What can I do|What can I give {F}], {G}?" {he} asked. "[The best gifts come from the heart|You can make something with your own hands]," said {his} {g}.

{H} thought and thought. Then {he} had an idea. {make} [It took all day.|It was hard, but {he} did not stop.|{His} hands were tired, but {he} was happy.] At last, the {gift} was ready.

On {F}'s birthday, there were many big presents. {H} [felt shy|was worried]. {His} gift looked so small. "[Happy birthday|This is for you], {F}," {he} said [quietly|]. {F} opened the box and saw the {gift}. {fHis} eyes grew wide. "[Did you make this|You made this for me]?" {fhe} asked. "Yes," said {H}. "[It is the best present of all|I love it]!" said {F}, and {fhe} hugged {H}. [{F} kept the {gift} forever.|{F} showed the {gift} to everyone.|Then they ate cake and danced.]""",
    [dict(gift=g, make=m) for g, m in [
        ("necklace", "{He} went to the beach, picked the prettiest shells and put them on a string."),
        ("picture", "{He} took {his} paints and made a picture of {F} and {himself} under a rainbow."),
        ("scarf", "{He} took some soft {color} wool and made a long, warm scarf."),
        ("bird house", "{He} found some old boards and made a little bird house with a {color} roof."),
        ("book", "{He} took some paper and made a book about all the fun things they did together."),
        ("drum", "{He} found an old pot and made a drum with {color} stars on it."),
        ("crown", "{He} picked {color} flowers and made a beautiful crown.")]])

PLOTS["skill"] = ("""More than anything, {H} wanted to {do}. {fdesc} could {do} very well, but {H} could not.

""" + DAY + """, {H} [tried|went to {place} and tried] to {do}. {fail} {He} tried again. {fail2} "[I will never learn|It is too hard]," said {H}. {His} {g} [sat down next to {him}|saw {him} and came over]. "[Nobody can do it the first time|Every one of us had to learn it once]," said {g_low}. "[Try a little every day|Do not give up]."

So {H} [tried a little every day|tried again the next day, and the day after that]. {F} helped {him} too. "{hint}" said {F}. And then, one day, it worked! {win} "[I can do it! I can do it!|Look at me, {G}! Look at me, {F}!]" {he} shouted. {F} and {g_low} clapped [their hands|and cheered]. "[I am so proud of you|You did not give up]," said {g_low}. {H} smiled, [because {he} knew that trying again was the secret|and {he} wanted to do it again and again].""",
    [dict(do=d, fail=f, fail2=f2, hint=h, win=w) for d, f, f2, h, w in [
        ("ride a bike", "The bike shook, and {he} fell on the grass.", "{He} fell on the grass again.", "Look in front of you, not at your feet!", "{H} rode all the way down the path."),
        ("swim", "{He} moved {his} arms, but {he} went under the water.", "{He} got water in {his} nose.", "Kick your legs like a frog!", "{H} swam all the way across the pond."),
        ("whistle", "{He} blew and blew, but there was no sound.", "Only air came out.", "Make your lips small and round!", "{H} whistled a pretty little song."),
        ("skate", "{He} slipped and fell on the ice.", "{He} slipped and fell again.", "Bend your knees and push!", "{H} skated around the whole lake."),
        ("jump over the stream", "{He} jumped and landed in the water with a splash.", "Splash! {He} got wet again.", "Run fast before you jump!", "{H} flew over the stream and landed on the other side."),
        ("play the flute", "It made a sound like an angry goose.", "Now it sounded like two angry geese.", "Blow softly and move your fingers slowly!", "{H} played a sweet song that made the birds listen.")]])

PLOTS["noise"] = ("One {w} night, {H} was in bed when {he} heard a [strange|funny] noise. {sound}! {sound}! \"What is that?\" {he} [thought|whispered]. {He} pulled the blanket over {his} head. {sound}! There it was again. {H} [was scared, but {he} wanted to know|took a deep breath].\n\n" + """{He} took {his} little lamp and went to {his} {g}. "{G}, there is a monster in the {room}," {he} said. "[Let us look together|We will go and see]," said {g_low}. They walked very slowly and opened the door of the {room}. There was no monster there. It was only a [small|little|baby] {pet}! It was wet and cold, and it [made the noise with|was playing with] {what}.

"[Poor little {pet}|Oh, you poor thing]!" said {H}. {He} gave it [some food|some warm milk|something to eat] and a soft bed in a box. The {pet} [closed its eyes|curled up] and went to sleep. "[May I keep it|Can it stay with us], {G}?" asked {H}. "[Yes, you may|Yes, it can]," said {g_low}[ with a smile|]. {H} named it {petname}. From that night on, {H} was not afraid of noises, and {petname} slept [next to {his} bed|at {his} feet] every night.""",
    [dict(sound=s, room=r, pet=p, what=w, petname=n) for s, r, w in [
        ("Bump", "kitchen", "an old pot"), ("Scratch", "closet", "a paper bag"), ("Tap", "shed", "a tin can"), ("Crash", "attic", "a box of toys")]
     for p, n in [("kitten", "Mittens"), ("puppy", "Spot"), ("owl", "Moon"), ("kitten", "Button"), ("puppy", "Lucky"), ("hedgehog", "Prickle")]])

PLOTS["turns"] = (DAY + """, {H} and {fdescm} went to {place}. There was only one {ride}. "[I want to go first|I was here first]!" said {H}. "No, [I want to go first|I was here first]!" said {F}. They [pulled and pushed|shouted at each other]. Then {F} [sat down and cried|walked away]. {H} [got on the {ride}|had the {ride} now], but it was no fun [alone|without {F}].

{H} felt bad. {He} went to {F} and said, "I am sorry, {F}. [I was not nice|I should not have shouted]. You can go first." {F} [wiped {fhis} eyes|looked up]. "I am sorry too," {fhe} said. "Let us take turns. {rule}" "[That is a good idea|I like that idea]!" said {H}.

So {F} went first, and {H} counted. Then {H} went, and {F} counted. [They both laughed and laughed.|It was much more fun that way.] "[It is better to take turns|I like playing with you more than the {ride}]," said {H}. {F} [nodded|smiled]. And when they went home, they were [still friends|better friends than before].""",
    [dict(ride=a, rule=b) for a in ["swing", "slide", "boat", "rope", "pony", "scooter", "sled"] for b in ["You get ten and I get ten.", "We can count to twenty each time."]])

PLOTS["found"] = (DAY + """, {H} was walking {at} when {he} saw something [shiny|bright] on the ground. It was a {coin}! "[How pretty|What a beautiful thing]!" said {H}. {He} put it in {his} pocket. [{He} wanted to keep it forever.|It was the prettiest thing {he} had ever seen.]

On the way home, {H} met {loser}. {L} was looking at the ground and [seemed very sad|crying]. "What are you looking for?" asked {H}. "I have lost my {coin}," said {loser2}. "{story}" {H} put {his} hand in {his} pocket. {He} felt the {coin}. {He} wanted to keep it, but {he} knew it was not {hers}. [{He} held out {his} hand. "Is this your {coin}?" asked {H}.|"I found this {coin}," said {H}, "and I think it is yours."]

{L}'s eyes filled with happy tears. "[Thank you, thank you|Oh, thank you], {H}! You are an honest {kind}," {lhe} said. {lHe} gave {H} {reward}. {H} ran home and told {his} {g} all about it. "[I am proud of you|You did the right thing]," said {g_low}. And {H} felt [happier than if {he} had kept the {coin}|very good inside].""",
    [dict(coin=c, story=s, loser=lo, loser2=l2, L=l3, lhe=lh, lHe=lh.capitalize(), reward=r) for c, s in [
        ("gold ring", "My mother gave it to me."), ("silver bell", "It rings so sweetly, and I miss it."), ("gold coin", "I was saving it for the winter."), ("silver key", "Now I cannot open my door.")]
     for lo, l2, l3, lh, r in [("an old woman", "the old woman", "The old woman", "she", "a warm apple pie"), ("an old man", "the old man", "The old man", "he", "a little wooden horse"), ("a tiny fairy", "the fairy", "The fairy", "she", "a flower that never fades")]])

PLOTS["sleep"] = ("""One night, {H} could not sleep. {He} turned to the left, and {he} turned to the right. {He} thought about {his} {thing} and all the fun things of the day. "{G}, I cannot sleep," {he} called.

{His} {g} came in and sat on the bed. "[Close your eyes|Let us try something]," said {g_low}. "{idea}" {H} {tried} [It was nice and quiet.|The moon looked in at the window.] But {he} was still awake. "Maybe your {toy} cannot sleep without you," said {g_low}. {H} laughed. {He} got the {thing} and put it [next to {him}|under the blanket].

"Good night, {toy}," said {H}. "Good night, moon. Good night, {G}." {His} {g} gave {him} a [kiss|hug] and sang a [soft|quiet] song about {song}. Before the song was over, {H} was [fast asleep|asleep]. {He} dreamed of {song} all night long.""",
    [dict(toy=toy, idea=i, tried=t, song=s) for toy in ["teddy bear", "doll", "toy bunny", "toy lion"] for i, t in [("Count the stars outside your window.", "looked at the stars and began to count."), ("Count little sheep that jump over a fence.", "thought of little white sheep and began to count."), ("Say good night to every toy in the room.", "looked at the toys and said good night to each one.")]
     for s in ["the sea", "a little boat", "a garden of stars", "a white horse", "the wind in the trees"]])

PLOTS["kite"] = ("{He} had a {color} {fly} and loved to watch it fly.\n\n" + """One windy day, {H} took the {fly} to {place}. Up, up it went, [high into the sky|over the trees]. Then the wind [blew very hard|gave a strong pull]. The string [slipped out of {his} hand|broke], and the {fly} got stuck at the top of a tall tree. "[My {fly}|Oh no, my {fly}]!" cried {H}.

{H} tried to climb the tree, but it was too high. {He} threw a stick, but the {fly} did not move. Then {fdescm} came along. "[I have an idea|I know who can help]," said {F}. {ask} The {big} came and looked at the {fly} and [said, "That is easy!"|smiled.] {act} Down came the {fly}!

"Thank you, {big}!" said {H}. "And thank you, {F}. That was a [great|good|clever] idea." [Then {H} gave the string to {F}, and they took turns with the {fly}.|{H} let {F} fly it first.|All three of them played together until dark.] The {color} {fly} danced in the sky, and {H} [was happy again|laughed with joy].""",
    [dict(fly=k, big=b, ask="{F} ran and asked a " + b + " to help.", act=a) for k in ["kite", "balloon"] for b, a in [
        ("giraffe", "The giraffe stretched its long neck and took the string in its mouth."), ("elephant", "The elephant lifted its long trunk and shook the branch."),
        ("monkey", "The monkey climbed up, up, up and pulled at the string."), ("big crow", "The big crow flew to the top and picked at the string."), ("woodcutter", "The woodcutter put a long ladder against the tree and climbed up.")]])

PLOTS["rain"] = (DAY.replace("{w}", "gray") + """, {H} and {fdescm} wanted to go to {place}. But then it started to rain. Drip, drop, drip, drop. "[Now we cannot go|The rain has spoiled our day]," said {H} [sadly|]. {F} [looked out of the window|was sad too].

{His} {g} [came in|smiled]. "[We can have fun inside too|You do not need the sun to have fun]," said {g_low}. "Look what I have here." It was a big box of {stuff}! "We can make {amake}!" said {H}. "[Yes, let us do it|What a good idea]!" said {F}. {steps} They [played|had fun] all [day|afternoon] and forgot about the rain.

Then {F} looked out. "[The rain has stopped|Look, {H}]!" said {fhe}. There was a beautiful rainbow in the sky. {H} [looked at the {made}|smiled at the {made}] and then at the rainbow. "[I like the rain|I am glad that it rained]," {he} said. "[Now we have a rainbow and a {made}|Without the rain, we would not have made the {made}]." And they all [laughed|smiled].""",
    [dict(stuff=s, made=m, amake="a " + m, steps=t) for s, m, t in [
        ("old clothes", "circus", "{F} put on a tall hat, and {H} put on a big red nose."), ("blankets", "cave", "They put the blankets over the chairs, and {H} brought a little lamp."),
        ("old boxes", "train", "They put the boxes in a row, and {F} drew the wheels."), ("paper and paint", "paper zoo", "{H} painted a lion, and {F} painted a tall giraffe."),
        ("socks and buttons", "puppet show", "{H} made a dragon, and {F} made a king."), ("boards and pillows", "ship", "{H} was the captain, and {F} looked out for land.")]])

PLOTS["greedy"] = (DAY + """, {H} and {fdescm} went to {place} with a big basket of {food}. "We must save some for your {g}," said {F}. "[Yes, yes|Of course]," said {H}. But the {food} were so sweet! When {F} went to [get some water|pick some flowers], {H} ate one. Then {he} ate one more. And one more. Soon the basket was [empty|almost empty].

When {F} came back, {fhe} looked into the basket. "Where are all the {food}?" {fhe} asked. {H} could not speak. {His} tummy was round and it hurt very much. "[Ow|Oh], my tummy," said {he}. "I ate too many {food}. I am sorry, {F}." {F} was [angry|cross] at first, but then {fhe} saw that {H} was in pain. "Come, I will take you home," said {fhe}.

At home, {g_low} gave {H} some [warm tea|tea] and put {him} to bed. The next day, {H} felt better. {He} got up early and picked a new basket of {food}, all for {F} and {his} {g}. {He} did not eat [even one|a single one]. "[These are for you|I am sorry that I was greedy]," {he} said. {F} laughed and gave {him} [one|just one]. "One is enough," said {H}, and [it tasted better than all the others|they all laughed].""",
    [dict(food=f) for f in ["berries", "cherries", "plums", "cookies", "grapes", "peaches", "strawberries"]])
