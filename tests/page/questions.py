"""The questions that the page's tests ask."""

SHORT = "A dial shows 3. A up 5. B down 3. C up 9. D up 4. What does it show now?"
LONG = (
    "A bus has 20 people. A 2 get off. B 2 get on. C 2 get off. D 3 get on. E 9 get on. F 9 get "
    "off. G 3 get off. H 9 get off. I 4 get on. J 4 get off. K 4 get on. L 8 get off. M 5 get on. "
    "How many people are on the bus?"
)
