"""The characters of the embedded data set: scripts and blocks of symbols in Unicode, by split.

Chosen so that each is in the cmap of a font inside matplotlib and no two look alike once they are scaled to
the same box: capitals whose small letter is the same shape, letters that Latin, Greek and Cyrillic share and
accented variants appear once. Related scripts (the three Georgian ones) are in the same split. A class keeps
its place for ever: a new character changes `VERSION` in `glyphs.py`.
"""

from __future__ import annotations

SCRIPTS: dict[str, dict[str, str]] = {
    "train": {
        "latin": "ABCDEHIJKLMNPQRSTUVWXYZabdefgkmnort",
        "greek": "ΘΞΣΦΨΩαβδζηλμξρςχωϒϝϞϟϠϡ",
        "cyrillic": "ДЖЗЛЦЧШЩЪЫЬЮЯфЂЉЊЋђєћџѣѤѦѨѪѬѮѰѸѹѺѼѾ",
        "armenian": "ԳԴԶԷԸԹԻԽԾԿՀՁՃՄՆՇՉՊՌՎՐՒՔՖէըթիխկձղճշչպջվֆև",
        "arabic": "ءبةتجخدذرزسشضطعفقكلمنوىيٹټڈډڑړڕڡکڪڭڮڸڹںڻھ",
        "asomtavruli": "ႠႡႣႥႦႧႨႩႪႫႬႮႯႰႱႲႳႴႵႸႺႼႿჁჃჄჅ",
        "mkhedruli": "დეზთკლმჟრტფქცჭჯჰჱჳჴჵჷჸჹ",
        "nuskhuri": "ⴀⴁⴃⴅⴆⴇⴈⴌⴎⴏⴐⴓⴕⴗⴘⴜⴝⴟⴡⴢⴣⴤⴥ",
        "syllabics": "ᐅᐊᐟᐠᐨᐩᒊᓀᓂᓄᓇᓬᓯᔅᔐᔓᔕᔦᔨᔪᔭᕐᕒᕗᕙᕪᕴᖋᖌᖕᖖᖠᖢᖤᖨᖪᖬᙇ",
        "phonetic": ("ɕɚɝɠɮɶɻʁʂʍʐʑʒʔʕʖʛʞʣʤʧʩʪʬʭƁƇƊƝƢƣƦƧƫƸƺȜȡȣȤȴȵȼȾɂɆɇⱢⱤⱥⱦⱩⱪⱲⱴⱾꜢꜤꜨꜫꜬꜮꜹꜽꝋꝓꝤꝧ꞉Ɦꟽ"),
        "apl": "⌸⌹⌺⌼⌾⍀⍁⍂⍅⍆⍉⍋⍍⍎⍏⍒⍔⍚⍛⍜⍝⍞⍠⍡⍢⍣⍤⍥⍧⍨⍩⍪⍮⍰⍲⍶⍷⍹",
        "arrows": "↜↝↫↬↯↰↳↴↵↶↷↸↹↼↽⇄⇈⇋⇑⇖⇗⇥⇩⇫⇰⇲⇶",
        "operators": ("∄∍∓∔∗√∝∟∠∡∢∯∰∸∹∺≄≅≆≎≏≐≓≗≜≢≣≤≥≨≩≪≫≮≯≰≷≼≽⊅⊆⊇⊊⊏⊢⊨⊩⊪⊫⊬⊯⊰⊱⊿⋆⋇⋈⋋⋌⋐⋑⋒⋔⋚⋛⋜⋝⋨⋩⋲⋳⋵⋺⋽"),
        "symbols": ("☆☈☍☎☏☕☖☘☙☜☝☞☟☠☢☣☧☪☫☭☯☱☽☾☿♂♃♅♊♋♌♍♎♏♐♑♓♔♖♘♚♛♡♤♨♩♪♫♬♮♾♿⚆⚐⚑⚒⚓⚔⚖⚗⚘⚜⚞⚟⚡⚢⚣⚤⚥⚦⚩⚮⚶⚷⛀⛁⛂⛃⛢"),
        "fraktur": "𝔄𝔅𝔇𝔈𝔉𝔊𝔎𝔏𝔐𝔑𝔒𝔓𝔔𝔖𝔗𝔘𝔚𝔛𝔜𝔞𝔠𝔢𝔤𝔦𝔫𝔬𝔭𝔮𝔯𝔰𝔳𝔴𝔵𝔶𝔷ℌℜ",
    },
    "valid": {
        "lao": "ກຂຄງຈຊຍດຕທນປຜຝພມຣລວສຮເແໂໃ໑໒໓໖໘໙",
        "old_italic": "𐌂𐌄𐌊𐌋𐌌𐌍𐌎𐌐𐌑𐌒𐌔𐌕𐌖𐌙𐌚𐌜𐌝𐌣",
        "currency": "₠₡₢₤₧₪₫₯₰₲₵₹₺$¤",
        "dingbats": "✂✆✇✌✍✎✐✕✖✗✙✞✟✠✡✧✩✬✾❆❝❞➘➢➲",
    },
    "test": {
        "hebrew": "אבגדהזטכלםמעףפצקרשת",
        "nko": "߂߃߄߅߇߉ߍߎߏߐߑߒߓߔߖߗߘߙߚߛߞߟߡߢߣߤ",
        "tifinagh": "ⴲⴴⴺⴻⴼⴽⴿⵁⵂⵃⵄⵆⵇⵋⵌⵍⵎⵐⵒⵓⵕⵖⵘⵚⵛⵞⵢⵣⵤ",
        "ogham": "ᚁᚂᚃᚄᚆᚇᚈᚉᚋᚌᚍᚎᚑᚒᚕᚖᚗ",
        "script": "𝒜𝒞𝒟𝒢𝒥𝒦𝒩𝒪𝒫𝒮𝒯𝒰𝒱𝒳𝒴𝒶𝒷𝒸𝒹𝒻𝒽𝒾𝒿𝓁𝓂𝓃𝓅𝓆𝓇𝓈𝓉𝓋𝓌𝓍𝓎𝓏ℬℋℐℒℯℊ",
        "braille": "⠇⠉⠊⠋⠌⠍⠎⠏⠑⠓⠕⠗⠙⠚⠛⠜⠝⠞⠡⠣⠥⠧⠩⠪⠫⠬⠮⠱⠳⠵⠹⠺⠼⠿",
        "geometric": "□▤▭▲▶▼▽◀◅◇◉◍◐◑◒◓◔◖◜◝◟◠◡◢◣◤◥◭◮◸◹◺⬂⬃⬄⬈⬉⬎⬑⬖⬗⬘⬙",
    },
}
